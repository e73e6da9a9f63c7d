report: "captions/workflow.rst"


# The figures as files of their own are made with the page, so that `snakemake --report` has them.
rule report:
    input:
        library(
            "report",
            "analysis/commands.py",
            "analysis/lesson.py",
            "analysis/lesson.yaml",
            "analysis/kv_arithmetic.py",
            "analysis/stats.py",
            "files.py",
            "model.py",
            "schedule.py",
            "simulator.py",
        ),
        # the CSV files are put into the page
        expand("results/tables/{table}.{kind}", table=TABLES, kind=["parquet", "csv"]),
        figures_script=SCRIPTS / "figures.py",
        script=SCRIPTS / "report.py",
        summary="results/summary.json",
    output:
        figures=report(
            directory("results/figures"),
            patterns=["{figure}.svg"],
            caption="captions/figures.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        page=report("results/report.html", caption="captions/page.rst", category="Page"),
    log:
        "results/logs/report.log",
    conda:
        "../envs/analysis.yaml"
    resources:
        machine=1,
    params:
        language=config.get("language", "en"),
    message:
        "Making the page and its figures"
    shell:
        "python {input.script:q}"
        " --tables results/tables"
        " --summary {input.summary:q}"
        " --language {params.language:q}"
        " --output {output.page:q}"
        " > {log:q} 2>&1"
        " && python {input.figures_script:q}"
        " --tables results/tables"
        " --summary {input.summary:q}"
        " --language {params.language:q}"
        " --output-dir {output.figures:q}"
        " >> {log:q} 2>&1"
