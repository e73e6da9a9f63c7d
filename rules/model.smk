rule model:
    input:
        script=ancient(SCRIPTS / "make_model.py"),
    output:
        f"{MODEL['path']}/checkpoint.json",
    log:
        "results/logs/model.log",
    conda:
        "../envs/torch.yaml"
    resources:
        machine=1,
    params:
        model=settings.canonical(MODEL),
    message:
        "Making the checkpoint that every engine loads"
    shell:
        "python {input.script:q}"
        " --spec {params.model:q}"
        " --output {output:q}"
        " > {log:q} 2>&1"
