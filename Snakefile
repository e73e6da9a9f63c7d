from snakemake.utils import min_version

min_version("9.27")


configfile: "config.yaml"


include: "rules/common.smk"
include: "rules/model.smk"
include: "rules/measure.smk"
include: "rules/analyse.smk"
include: "rules/report.smk"


onstart:
    check_machine()


rule all:
    default_target: True
    input:
        timings,
        "results/report.html",


# snakemake dose: the cells of a set, measured with the rest
for name in SETS:

    rule:
        name:
            name
        input:
            timings,
            "results/report.html",
