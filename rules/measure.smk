rule measure:
    input:
        # Not ancient(): Snakemake 9.27 then overlooks a changed spec whenever the checkpoint is
        # made anew in the same run, as with another seed.
        checkpoint=f"{MODEL['path']}/checkpoint.json",
        # Not tracked: an edit of the code measures nothing again. A change of what is measured
        # raises PROTOCOL, which is part of the spec.
        script=ancient(SCRIPTS / "measure.py"),
    output:
        # update(): the old timing stays until the new one replaces it, also if measuring fails
        timing=update("results/timings/{cell}/{repeat}.parquet"),
        steps=update("results/steps/{cell}/{repeat}.parquet"),
    log:
        "results/logs/measure/{cell}/{repeat}.log",
    priority: place_in_order
    conda:
        engine_environment
    resources:
        machine=100,
    params:
        spec=spec_of,
        attempts="results/attempts/{cell}/{repeat}",
    message:
        "Measuring {wildcards.cell}, repeat {wildcards.repeat}"
    shell:
        "python {input.script:q}"
        " --spec {params.spec:q}"
        " --repeat {wildcards.repeat}"
        " --output {output.timing:q}"
        " --steps {output.steps:q}"
        " --attempts {params.attempts:q}"
        " --log {log:q}"
