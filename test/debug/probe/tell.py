# SPDX-License-Identifier: MIT
# tell.py: writes what the probes tell, to the file of the variable TOLD. For gdb.

import os

import gdb

NAMES = 'make begin block wake end steal fd_wait'


class Probe(gdb.Breakpoint):
    def __init__(self, name):
        super().__init__('-probe-stap usched:' + name)
        self.silent = True
        self.name = name

    def stop(self):
        values = [int(gdb.parse_and_eval('$_probe_arg%d' % i)) for i in range(3)]
        told.write(' '.join([self.name] + ['0x%x' % v for v in values]) + '\n')
        return False


gdb.execute('set pagination off')
with open(os.environ['TOLD'], 'w') as told:
    probes = [Probe(name) for name in NAMES.split()]
    gdb.execute('run')
