"""The lab's platform plugin as a distribution; vLLM finds it by its entry point."""

from setuptools import setup

setup(
    name="tandem-lab-platform",
    version="1.0",
    py_modules=["tandem_lab_plugin", "tandem_lab_platform", "tandem_lab_communicator", "tandem_lab_worker"],
    entry_points={"vllm.platform_plugins": ["tandem_lab = tandem_lab_plugin:register"]},
)
