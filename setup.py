"""Builds one self-contained wheel: CMake makes framefuse._C, and abseil's shared libraries travel inside the package.

    pip install --no-build-isolation .

`--no-build-isolation`, because the extension is built against the PyTorch that it will run with. FF_DEB_ROOT and FF_JOBS mean what they
mean to ./dev. Where the wheel is installed nothing but PyTorch is needed: no compiler, no abseil.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).parent.resolve()


class CMakeBuild(build_ext):
    """Runs CMake and ninja, then copies the extension and the abseil libraries that it needs into the package."""

    def build_extension(self, extension):
        # As deep in the tree as ./dev's build folder: with paths relative to the root, either finds in ccache what the other compiled.
        build = ROOT / "build-wheel"
        os.environ.setdefault("CCACHE_BASEDIR", str(ROOT))
        os.environ.setdefault("CCACHE_NOHASHDIR", "1")
        configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"]
        subprocess.run([*configure, "-DFF_TESTS=OFF", "-DFF_WHEEL=ON"], check=True)
        jobs = os.environ.get("FF_JOBS", str(os.cpu_count() or 1))
        subprocess.run(["cmake", "--build", build, "--target", "framefuse_C", "-j", jobs], check=True)
        target = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        (built,) = (build / "package" / "framefuse").glob("_C*.so")
        shutil.copy2(built, target)
        # The extension's run path is its own folder (FF_WHEEL), and that holds for what these load in turn.
        for library in needed_libraries(built):
            shutil.copy2(library, target.parent / library.name)


def needed_libraries(binary):
    """The abseil libraries that `binary` loads, directly or through one another."""
    listing = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True).stdout
    return [pathlib.Path(path).resolve().with_name(name) for name, path in re.findall(r"(libabsl_\S+) => (/\S+)", listing)]


setup(
    name="framefuse",
    version=re.search(r'__version__ = "(.+)"', (ROOT / "python/framefuse/__init__.py").read_text())[1],
    description="torch.compile done again in C++: captures Python bytecode into tensor graphs and runs them compiled",
    long_description=(ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    python_requires=">=3.11,<3.14",
    install_requires=["torch>=2.11", "jinja2"],
    packages=["framefuse"],
    py_modules=["framefuse_torch_compile"],
    package_dir={"": "python"},
    package_data={"framefuse": ["py.typed", "*.pyi", "*.jinja"]},
    entry_points={
        "torch_dynamo_backends": ["framefuse = framefuse:torch_backend"],
        "torch.backends": ["framefuse = framefuse_torch_compile:start"],
        "console_scripts": ["framefuse-graph = framefuse.graph:main", "framefuse-report = framefuse.report:main", "framefuse-doctor = framefuse.doctor:main"],
    },
    ext_modules=[Extension("framefuse._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
