"""Eight fake devices for every test, set before JAX starts."""

import os

_FLAG = "--xla_force_host_platform_device_count=8"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
