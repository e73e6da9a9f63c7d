"""Writes what the config asks for (`script:` of rule plan) as a file that the analysis reads."""

from pathlib import Path


def write(plan: str, output: Path) -> None:
    output.write_text(plan)


if __name__ == "__main__":
    write(snakemake.params.plan, Path(snakemake.output[0]))
