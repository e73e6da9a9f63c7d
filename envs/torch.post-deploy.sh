#!/usr/bin/env bash
# Snakemake runs this in the new environment and rebuilds that when this file changes, so it names the lock by content.
lock_sha256=72d111888f353bffbe48d2b7a0aa6063d717ea28de514a8fae70583a0c7b9b36
envs=${FOUR_CELLS_ENVS:-envs}
[ -f "$envs/install.sh" ] || { echo "no $envs/install.sh: set FOUR_CELLS_ENVS to the workflow's envs folder" >&2; exit 1; }
exec bash "$envs/install.sh" "$envs/torch.lock.txt" "$lock_sha256"
