#!/usr/bin/env bash
# Snakemake runs this in the new environment and rebuilds that when this file changes, so it names the lock by content.
lock_sha256=9da8e6735c52967188b3953c3a0484c70edd1448fd0db44201186fd3e154addd
envs=${FOUR_CELLS_ENVS:-envs}
[ -f "$envs/install.sh" ] || { echo "no $envs/install.sh: set FOUR_CELLS_ENVS to the workflow's envs folder" >&2; exit 1; }
exec bash "$envs/install.sh" "$envs/vllm-cuda.lock.txt" "$lock_sha256"
