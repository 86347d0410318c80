"""ray.util.joblib."""

from joblib.parallel import register_parallel_backend

from volador.util.joblib import VoladorBackend


def register_ray() -> None:
    """Makes joblib.parallel_config("ray") run on Volador."""
    register_parallel_backend("ray", VoladorBackend)
