# SPDX-License-Identifier: MIT
"""conanfile.py: a recipe for Conan 2. In the tree: conan create pack"""
import os
import re
import shutil

from conan import ConanFile
from conan.tools.files import copy


class Usched(ConanFile):
    name = "usched"
    license = "MIT"
    description = "Cooperative user-space threads that copy stacks"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"

    def set_version(self):
        with open(os.path.join(self.recipe_folder, "..", "usched.h")) as header:
            self.version = re.search(r'USCHED_VERSION "(.*)"', header.read()).group(1)

    def export_sources(self):
        top = os.path.join(self.recipe_folder, "..")
        for pattern in ("Makefile", "sources", "LICENSE", "*.c", "*.h", "*.hpp", "*.awk"):
            copy(self, pattern, top, self.export_sources_folder,
                 excludes=("build/*", "out/*", "test/*", "bench/*", "ext/python/*"))

    def build(self):
        self.run("make -s libusched.a")

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "libusched.a", self.source_folder, os.path.join(self.package_folder, "lib"))
        # Headers are links, and usched.h has parts in core/.
        to = os.path.join(self.package_folder, "include")
        shutil.copytree(os.path.join(self.source_folder, "include"), to)
        self.run("awk -v file=usched.h -f core/single.awk >'%s/usched/usched.h'" % to)

    def package_info(self):
        self.cpp_info.libs = ["usched"]
        self.cpp_info.system_libs = ["pthread"]
        self.cpp_info.set_property("cmake_target_name", "usched::usched")
