"""Read the tables and the summary; a table that is missing is an empty one with its columns."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fourcells.report.numbers import is_missing

COLUMNS = {
    "timings": "set engine backend workload slots repeat sample started session host verdict"
    " window_s tokens tok_s steps rows useful_rows load_s warmup_s git_commit dirty version attempt"
    " reason stale_key foreign_cpu_s foreign_cpu_share steal_s steal_share pressure_s"
    " involuntary_switches run_queue_max quota_stops swapped_bytes witness_cost_s"
    " sm_clock_mhz_min sm_clock_mhz_max temperature_c_max power_w_max throttled"
    " foreign_gpu_processes python_mloops_before python_mloops_after matmul_gflops_before"
    " matmul_gflops_after",
    "throughput": "engine slots workload repeat window_s tokens tok_s compare_with loss_when_mixed"
    " lesson_tok_s lesson_loss",
    "ratios": "name engine baseline slots repeat value geometric_mean min max n lesson"
    " crosses_sessions low high boot_low boot_high unpaired_estimate unpaired_low unpaired_high"
    " baseline_slots",
    "latency": "engine workload slots repeat output_tokens n ttft_s service_ttft_s"
    " e2e_produced_s e2e_returned_s lesson_ttft_s lesson_e2e_s ttft_low ttft_high"
    " e2e_returned_low e2e_returned_high e2e_returned_p90 e2e_returned_p95 e2e_returned_p99",
    "idle": "engine workload slots repeat admission steps rows useful_rows idle_rows idle_slots"
    " computed_steps computed_idle_rows computed_idle_slots lesson_idle",
    "kv": "source quantity value unit formula",
    "attempts": "engine workload slots repeat attempt started session verdict reason tok_s window_s"
    " counts stale_key problem",
    "noise": "engine workload slots n mean_tok_s sd_tok_s cv spread drop lesson_drop drift_per_hour"
    " drift_low drift_high outliers",
    "controls": "name kind engine other workload slots n estimate low high expected passed"
    " p p_together together noise_floor",
    "variance": "engine workload slots repeats samples between_sd within_sd total_sd"
    " repeat_s sample_s best_samples advice",
    "attribution": "engine baseline workload slots path place factor above below repeat value"
    " estimate low high n predicted",
    "step_model": "engine engines a_s c_s p_s d_s c_known p_known d_known rows_known"
    " extra_known graph_tokens a_over_c steps cells lesson_a_s lesson_c_s",
    "prediction": "engine workload slots admission fitted steps_computed steps_measured"
    " rows_mean_computed predicted_s measured_s predicted_tok_s measured_tok_s residual"
    " decode_only_s decode_only_residual bound_longest bound_share bound_graham",
    "ablations": "engine reference option value reference_value workload slots n estimate low high"
    " min max",
    "occupancy": "engine workload slots admission source step_from step_to t_from_s t_to_s rows"
    " useful_rows waiting",
    "holders": "engine workload slots admission repeat request slot output_tokens admitted_s"
    " first_token_s finished_s returned_s",
    "dose": "kind engine other workload slots x label steps_other steps_engine step_ratio_computed"
    " step_ratio_measured n estimate low high",
    "arrivals": "engine workload slots repeat process rate requests window_s slot_use freed"
    " refilled refilled_share ttft_median_s ttft_p90_s e2e_median_s e2e_p90_s late_max_s"
    " late_mean_s",
    "reservations": "engine workload slots repeat reservation block_size usable_tokens"
    " reserve_tokens rows_max rows_mean rows_mean_time steps tok_s estimate low high n"
    " reserved_mean held_mean used_of_reserved preemptions recomputed_tokens ratio_to_max"
    " ratio_estimate ratio_low ratio_high rows_computed steps_computed",
    "reservation_waits": "engine workload slots output_tokens n wait_median_s wait_p90_s",
    "reservation_timeline": "engine workload slots t_s reserved held rows preempted",
}


@dataclass(frozen=True)
class Data:
    """Everything the page may say: one frame per table of `COLUMNS`, and the summary."""

    timings: pd.DataFrame
    throughput: pd.DataFrame
    ratios: pd.DataFrame
    latency: pd.DataFrame
    idle: pd.DataFrame
    kv: pd.DataFrame
    attempts: pd.DataFrame
    noise: pd.DataFrame
    controls: pd.DataFrame
    variance: pd.DataFrame
    attribution: pd.DataFrame
    step_model: pd.DataFrame
    prediction: pd.DataFrame
    ablations: pd.DataFrame
    occupancy: pd.DataFrame
    holders: pd.DataFrame
    dose: pd.DataFrame
    arrivals: pd.DataFrame
    reservations: pd.DataFrame
    reservation_waits: pd.DataFrame
    reservation_timeline: pd.DataFrame
    summary: dict

    @property
    def measured(self) -> dict:
        return self.summary.get("measured") or {}

    def trust(self, kind: str) -> list[dict]:
        """What the summary says against the timings, of one kind; empty if there is nothing."""
        return (self.summary.get("trust") or {}).get(kind) or []

    def summary_cell(self, engine: str, workload: str, slots: int) -> dict:
        """The summary's entry of one cell, empty when it has none."""
        for cell in self.summary.get("cells") or []:
            key = (cell.get("engine"), cell.get("workload"), cell.get("slots"))
            if key == (engine, workload, slots):
                return cell
        return {}


def complete(frame: pd.DataFrame | None, name: str) -> pd.DataFrame:
    """The frame with every column of its table; absent columns are null."""
    columns = COLUMNS[name].split()
    frame = pd.DataFrame(columns=columns) if frame is None else frame.copy()
    for column in columns:
        if column not in frame:
            frame[column] = None
    return frame


def make_data(tables: dict[str, pd.DataFrame], summary: dict) -> Data:
    """Data from frames in memory, by table name."""
    return Data(**{name: complete(tables.get(name), name) for name in COLUMNS}, summary=summary)


def load(tables: str | Path, summary: str | Path) -> Data:
    """Read `tables`/NAME.parquet and the summary's JSON.

    Raises:
        FileNotFoundError: no summary, or no table at all in the folder.
    """
    folder = Path(tables)
    frames = {
        name: pd.read_parquet(path)
        for name in COLUMNS
        if (path := folder / f"{name}.parquet").exists()
    }
    if not frames:
        raise FileNotFoundError(
            f"no tables in {folder}; make them with `snakemake -j1 --use-conda tables`"
        )
    return make_data(frames, json.loads(Path(summary).read_text(encoding="utf-8")))


def ratio_interval(data: Data, rows: pd.DataFrame) -> dict:
    """`estimate`, `low`, `high` and `n` of one ratio, from its table, else from the summary's
    entry of it; and the noise `floor`."""
    count = int(rows.value.count())
    low, high = rows.low.iloc[0], rows.high.iloc[0]
    if is_missing(low) or is_missing(high):
        entry = summary_ratio(data, rows)
        low, high = entry.get("low"), entry.get("high")
    told = {"estimate": rows.geometric_mean.iloc[0], "low": low, "high": high, "n": count}
    return told | {"floor": noise_floor(data)}


def noise_floor(data: Data) -> float | None:
    """The largest that one engine under two names shows, as a share; None without such a pair.

    Of two repeats it is so wide that it would hide everything.
    """
    floors = data.controls[data.controls.kind.eq("A/A") & data.controls.n.gt(2)].noise_floor
    return None if floors.dropna().empty else float(floors.max())


def summary_ratio(data: Data, rows: pd.DataFrame) -> dict:
    """The summary's entry of one ratio, if it is the one of these rows; else empty."""
    entry = (data.summary.get("ratios") or {}).get(rows["name"].iloc[0]) or {}
    for key in ("engine", "baseline", "slots"):
        told, ours = entry.get(key), rows[key].iloc[0]
        # a ratio of slots has no baseline, so both may be null
        if key in entry and told != ours and not (is_missing(told) and is_missing(ours)):
            return {}
    ours, theirs = rows.geometric_mean.iloc[0], entry.get("estimate")
    if is_missing(ours) or is_missing(theirs) or not math.isclose(ours, theirs, rel_tol=1e-6):
        return {}
    return entry
