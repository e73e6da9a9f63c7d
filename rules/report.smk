rule report:
    input:
        library(
            "report",
            "analysis/commands.py",
            "analysis/lesson.py",
            "analysis/lesson.yaml",
            "analysis/stats.py",
            "schedule.py",
            "simulator.py",
        ),
        expand("results/tables/{table}.parquet", table=TABLES),
        script=SCRIPTS / "report.py",
        summary="results/summary.json",
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../envs/analysis.yaml"
    resources:
        machine=1,
    message:
        "Making the page"
    shell:
        "python {input.script:q}"
        " --tables results/tables"
        " --summary {input.summary:q}"
        " --output {output:q}"
        " > {log:q} 2>&1"
