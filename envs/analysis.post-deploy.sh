#!/usr/bin/env bash
# Snakemake runs this in the new environment and rebuilds that when this file changes, so it names the lock by content.
lock_sha256=aefd5dfe28c95473f69561512e752ce9e6d5a652200ce2ece0545ed135fbce8c
envs=${FOUR_CELLS_ENVS:-envs}
[ -f "$envs/install.sh" ] || { echo "no $envs/install.sh: set FOUR_CELLS_ENVS to the workflow's envs folder" >&2; exit 1; }
exec bash "$envs/install.sh" "$envs/analysis.lock.txt" "$lock_sha256"
