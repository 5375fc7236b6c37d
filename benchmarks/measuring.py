"""What every benchmark script shares: one JSON line of figures, and the memory of this process."""

import json
import resource


def peak_mib() -> int:
    """Return the most memory this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def emit(**figures: float) -> None:
    """Print figures as one JSON line, to three decimals."""
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
