"""Builds one self-contained wheel: CMake makes framefuse._C, and abseil's shared libraries travel inside the package.

    pip install --no-build-isolation .

`--no-build-isolation`, because the extension is built against the PyTorch that it will run with. FF_DEB_ROOT and FF_JOBS mean what they
mean to ./dev. Where the wheel is installed nothing but PyTorch of the same minor version is needed: no compiler, no abseil.
FF_GRAFTED=1 leaves abseil out, for auditwheel to put in under names of its own (./dev wheel).
"""

import importlib.metadata
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
        shutil.copy2(built.with_name("_built_for.py"), target.parent)
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", target], check=True)
        if os.environ.get("FF_GRAFTED") == "1":
            return
        # The extension's run path is its own folder (FF_WHEEL), and that holds for what these load in turn.
        for library in needed_libraries(built):
            shutil.copy2(library, target.parent / library.name)


def needed_libraries(binary):
    """The abseil libraries that `binary` loads, directly or through one another."""
    listing = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True).stdout
    return [pathlib.Path(path).resolve().with_name(name) for name, path in re.findall(r"(libabsl_\S+) => (/\S+)", listing)]


def torch_requirement():
    """Of the minor version that the extension is built against: torch's C++ interface changes between them."""
    return "torch==" + ".".join(importlib.metadata.version("torch").split("+")[0].split(".")[:2]) + ".*"


def licenses():
    """Of what is compiled in or travels along: where Debian keeps them."""
    roots = [pathlib.Path(os.environ.get("FF_DEB_ROOT") or "/"), pathlib.Path("/")]
    found = {}
    for package in ("libabsl-dev", "libxbyak-dev"):
        files = [root / "usr/share/doc" / package / "copyright" for root in roots]
        found[package] = next((file for file in files if file.exists()), None)
    return {name: file for name, file in found.items() if file}


def put_licenses():
    """In the tree while setup runs, for `license_files`: paths outside of it are refused."""
    folder = ROOT / "build-wheel" / "licenses"
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in licenses().items():
        shutil.copy2(file, folder / f"LICENSE.{name.removeprefix('lib').removesuffix('-dev')}")
    return ["LICENSE", "NOTICE", "build-wheel/licenses/LICENSE.*"]


setup(
    name="framefuse",
    version=re.search(r'__version__ = "(.+)"', (ROOT / "python/framefuse/__init__.py").read_text())[1],
    description="torch.compile done again in C++: captures Python bytecode into tensor graphs and runs them compiled",
    long_description=(ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    license_files=put_licenses(),
    python_requires=">=3.11,<3.15",
    install_requires=[torch_requirement(), "jinja2"],
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
