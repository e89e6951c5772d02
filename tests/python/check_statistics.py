"""Computes the golden numbers of the statistics with numpy, scipy and statsmodels and compares them with
tests/vectors/statistics.json, which the Rust tests read. `--write` writes the file anew.

Needs `pip install numpy scipy statsmodels`; without them it says so and exits 77. Exits 1 on any difference.
"""

import json
import sys
from pathlib import Path

try:
    import numpy as np
    from scipy import stats
    from statsmodels.stats.multitest import multipletests
    from statsmodels.tsa.stattools import acf
except ImportError as error:
    print(f"not compared: {error}; pip install numpy scipy statsmodels")
    sys.exit(77)

FILE = Path(__file__).resolve().parent.parent / "vectors" / "statistics.json"


def numbers():
    """Series that are drawn once and kept: smooth, heavy-tailed, tied, and one whose neighbours are alike."""
    draw = np.random.default_rng(20261130)
    wander = np.zeros(100)
    for i in range(1, 100):
        wander[i] = 0.6 * wander[i - 1] + draw.normal(0, 0.01)
    series = {
        "normal": draw.normal(0.05, 0.01, 100),
        "heavy": draw.standard_t(2, 101) * 0.02,
        "tied": np.round(draw.normal(0, 0.02, 60), 2),
        "wander": wander,
        "short": draw.normal(0.1, 0.02, 15),
        "ten": draw.normal(0.1, 0.02, 10),
    }
    return {name: [float(f"{value:.9f}") for value in values] for name, values in series.items()}


def median_errors(series):
    """The interval of median-batch-ranks/1 from its description, with numpy's quantiles and scipy's t and binomial."""
    values = np.array(series)
    ordered = np.sort(values)
    count = len(values)
    centre = np.median(values)
    if count < 20:
        outside = 0
        while outside < count // 2 and stats.binom.cdf(outside, count, 0.5) <= 0.025:
            outside += 1
        outside = max(outside, 1)
        low, high = ordered[outside - 1], ordered[count - outside]
        degrees = None
    else:
        edges = [batch * count // 10 for batch in range(11)]
        means = [np.sign(values[a:b] - centre).mean() for a, b in zip(edges, edges[1:])]
        ranks = 0.5 + stats.t.ppf(0.975, 9) * stats.sem(means) * count / 2
        place = lambda distance: np.quantile(values, np.clip(0.5 + distance / (count - 1), 0, 1))
        low, high = place(-ranks), place(ranks)
        degrees = 9
    return {"log": float(centre), "low": float(low), "high": float(high), "degrees": degrees}


def described(series):
    values = np.array(series)
    signs = np.sign(values - np.median(values))
    return {
        "quantiles": {str(p): float(np.quantile(values, p)) for p in (0.01, 0.1, 0.25, 0.5, 0.9, 0.99)},
        "median_absolute_deviation": float(stats.median_abs_deviation(values)),
        "geometric_mean": float(stats.gmean(np.exp(values))),
        # Around zero, as the signs are; statsmodels takes their mean off, which is zero where none ties.
        "sign_autocorrelation": [float(a) for a in acf(signs, nlags=3, fft=False)[1:]]
        if abs(signs.mean()) < 1e-12 else None,
        "median": median_errors(series),
    }


def leases():
    """Means of units with scipy's t interval: what the bootstrap's standard error must come close to."""
    units = {"three": [0.10, 0.12, 0.09], "five": [0.01, -0.02, 0.015, 0.0, 0.005]}
    answer = {}
    for name, logs in units.items():
        low, high = stats.t.interval(0.95, len(logs) - 1, loc=np.mean(logs), scale=stats.sem(logs))
        answer[name] = {"logs": logs, "mean": float(np.mean(logs)), "low": float(low), "high": float(high)}
    return answer


def compute():
    series = numbers()
    p_values = [0.01, 0.04, 0.03, 0.005, 0.2, 0.04, 1.0]
    copies = [0.002, -0.004, 0.001, 0.003]
    scatter = float(np.sqrt(np.mean(np.square(copies))))
    return {
        "series": series,
        "described": {name: described(values) for name, values in series.items()},
        "student_quantile": [[p, d, float(stats.t.ppf(p, d))] for d in (1, 2, 3, 9, 27.5, 400) for p in (0.6, 0.975, 0.9995, 0.01)],
        "student_tail": [[t, d, float(stats.t.sf(t, d))] for d in (1, 2, 9, 64) for t in (-1.5, 0.0, 0.3, 2.0, 12.0)],
        "normal_tail": [[z, float(stats.norm.sf(z))] for z in (-2.0, 0.0, 1.0, 1.96, 6.0)],
        "fair_coin_at_most": [[k, n, float(stats.binom.cdf(k, n, 0.5))] for k, n in ((0, 5), (1, 9), (2, 15), (40, 100))],
        "p_values": p_values,
        "holm": multipletests(p_values, method="holm")[1].tolist(),
        "benjamini_hochberg": multipletests(p_values, method="fdr_bh")[1].tolist(),
        "leases": leases(),
        "floor": {"logs": copies, "scatter": scatter, "bound": float(stats.t.ppf(0.975, len(copies)) * scatter)},
        # Standard error 0.01, nine degrees, power 0.8.
        "detectable": float((stats.t.ppf(0.975, 9) + stats.t.ppf(0.8, 9)) * 0.01),
    }


def differences(place, kept, found):
    if isinstance(found, dict):
        for key in found:
            yield from differences(f"{place}/{key}", (kept or {}).get(key), found[key])
    elif isinstance(found, list):
        if not isinstance(kept, list) or len(kept) != len(found):
            yield f"{place}: another length"
            return
        for index, (one, other) in enumerate(zip(kept, found)):
            yield from differences(f"{place}[{index}]", one, other)
    elif isinstance(found, float):
        if not isinstance(kept, (int, float)) or abs(kept - found) > 1e-9 * max(1.0, abs(found)):
            yield f"{place}: kept {kept}, found {found}"
    elif kept != found:
        yield f"{place}: kept {kept}, found {found}"


def main():
    found = compute()
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    bad = list(differences("", json.loads(FILE.read_text()), found))
    print("\n".join(bad) if bad else "the statistics agree with numpy, scipy and statsmodels")
    return 1 if bad else 0


sys.exit(main())
