from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyFirsttouch(PythonPackage):
    """Measures how the memory management of CPUs and GPUs behaves on a machine, and which method to take."""

    homepage = "https://firsttouch.example/firsttouch"
    url = "https://firsttouch.example/firsttouch/releases/download/v0.2.0/firsttouch-0.2.0.tar.gz"
    git = "https://firsttouch.example/firsttouch"

    license("Apache-2.0")

    version("0.2.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("cuda", default=False, description="Find NVRTC and CUPTI of Spack's CUDA; the driver is the system's")

    depends_on("cxx", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@0.10:", type="build")
    depends_on("py-nanobind@2.2:", type="build")
    depends_on("py-setuptools-scm@8:", type="build")
    depends_on("py-hatch-fancy-pypi-readme@23.1:", type="build")
    depends_on("py-typing-extensions", type="build")

    depends_on("py-typer@0.16:0.28", type="run")
    depends_on("py-rich@13:", type="run")
    depends_on("py-msgspec@0.18:", type="run")
    depends_on("py-numpy@1.24:", type="run")
    depends_on("py-vl-convert-python@1.4:", type="run")
    depends_on("py-jinja2@3.1:", type="run")
    depends_on("py-nvidia-ml-py@12:", type="run")
    depends_on("cuda", type="run", when="+cuda")

    def setup_run_environment(self, env):
        if self.spec.satisfies("+cuda"):
            env.set("CUDA_HOME", self.spec["cuda"].prefix)
