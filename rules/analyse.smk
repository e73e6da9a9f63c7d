TABLES = [
    *("requests", "timings", "throughput", "noise", "ratios", "controls", "variance"),
    *("latency", "idle", "kv", "attempts", "attribution", "ablations", "step_model"),
    *("prediction", "occupancy", "holders", "dose", "arrivals"),
    *("reservations", "reservation_waits", "reservation_timeline"),
]


rule plan:
    output:
        "results/plan.json",
    log:
        "results/logs/plan.log",
    conda:
        "../envs/analysis.yaml"
    resources:
        machine=1,
    params:
        plan=lambda _: settings.canonical(wanted()),
    message:
        "Writing down what is planned"
    script:
        "../scripts/plan.py"


rule tables:
    input:
        timings,
        steps,
        library(
            "analysis",
            "files.py",
            "model.py",
            "schedule.py",
            "schema.py",
            "simulator.py",
            "spec.py",
            "verdict.py",
            "workload.py",
        ),
        plan="results/plan.json",
        script=SCRIPTS / "tables.py",
    output:
        expand("results/tables/{table}.parquet", table=TABLES),
        # the table of all requests is raw material, and large
        "results/tables/requests.csv",
        [
            report(
                f"results/tables/{table}.csv",
                caption=f"captions/{table}.rst",
                category="Tables",
                labels={"table": table},
            )
            for table in TABLES
            if table != "requests"
        ],
        summary="results/summary.json",
    log:
        "results/logs/tables.log",
    conda:
        "../envs/analysis.yaml"
    resources:
        machine=1,
    params:
        verdict=settings.canonical(config.get("verdict", {})),
    message:
        "Making the tables"
    shell:
        "python {input.script:q}"
        " --plan {input.plan:q}"
        " --output-dir results/tables"
        " --summary {output.summary:q}"
        " --verdict {params.verdict:q}"
        " > {log:q} 2>&1"
