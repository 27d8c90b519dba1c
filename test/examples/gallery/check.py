# SPDX-License-Identifier: MIT
# check.py cache|jobs PROGRAM [FEW]: asks a server of examples/gallery, well and badly,
# with a good client beside each attack. Prints what is wrong, and
# "N passed, N failed".

import random, re, signal, socket, struct, subprocess, sys, threading, time

kind, program = sys.argv[1:3]
few = len(sys.argv) > 3                 # requests, for a slow build
passed = failed = 0


def check(what, ok, *more):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print('FAIL ', what, *(str(m)[:300] for m in more))


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([program, '-p', '0', *options],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(re.fullmatch(r'listening on 127\.0\.0\.1:(\d+)\n',
                                     self.process.stdout.readline())[1])

    def dial(self):
        s = socket.create_connection(('127.0.0.1', self.port), 20)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    # Bytes that this process has of its own.
    def memory(self):
        with open('/proc/%d/smaps_rollup' % self.process.pid) as f:
            return int(re.search(r'Anonymous: *(\d+)', f.read())[1]) * 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            check('ends well', self.process.wait(20) == 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            check('ends', False)


# All that comes until the end of the stream, or nr bytes.
def read(s, nr=1 << 30):
    data = b''
    try:
        while len(data) < nr:
            more = s.recv(min(1 << 20, nr - len(data)))
            if not more:
                break
            data += more
    except (ConnectionResetError, socket.timeout):
        data += b'<reset or too late>'
    return data


# Sends pieces, says that no more come, and reads all. lines: of answers, for which the
# server may wait only until it hears that no more come.
def ask(server, *pieces, lines=0):
    with server.dial() as s:
        for piece in pieces:
            s.sendall(piece)
        data = b''
        while data.count(b'\n') < lines:
            more = read(s, 1)
            data += more
            if len(more) != 1:
                return data
        s.shutdown(socket.SHUT_WR)
        return data + read(s)


def resp(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b'*%d\r\n' % len(words) + b''.join(
        b'$%d\r\n%s\r\n' % (len(w), w) for w in words)


# Sends without reading, until the server takes no more for half a second.
def pour(s, bytes_of_requests, most):
    sent = 0
    s.settimeout(0.5)
    try:
        while sent < most:
            sent += s.send(bytes_of_requests)
    except socket.timeout:
        pass
    return sent


class Good(threading.Thread):
    """A client that must get its answers all the time."""
    def __init__(self, server):
        super().__init__()
        self.server, self.over, self.wrong, self.asked = server, False, None, 0

    def run(self):
        try:
            with self.server.dial() as s:
                while not self.over:
                    question, answer = good(self.asked)
                    s.sendall(question)
                    got = read(s, len(answer))
                    if got != answer:
                        self.wrong = got
                        return
                    self.asked += 1
                    time.sleep(0.002)
        except OSError as e:
            self.wrong = e

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()
        check('a good client beside it', self.wrong is None and self.asked > 0,
              self.wrong, self.asked)


def good(i):
    if kind == 'cache':
        return (resp('SET', 'good', i) + resp('GET', 'good'),
                b'+OK\r\n$%d\r\n%d\r\n' % (len(str(i)), i))
    return b'unknown\n', b'error unknown request\n'


# The same pieces at once, cut at each place, and byte by byte.
def torn(server, stream, want):
    check('whole', ask(server, stream) == want, ask(server, stream))
    with server.dial() as s:
        for at in range(1, len(stream)):
            s.sendall(stream[:at])
            time.sleep(0.0005)
            s.sendall(stream[at:])
            got = read(s, len(want))
            if got != want:
                check('cut at %d' % at, False, got)
                return
    check('cut anywhere', True)
    with server.dial() as s:
        for at in range(len(stream)):
            s.sendall(stream[at:at + 1])
        check('byte by byte', read(s, len(want)) == want)


# Threads that hold parts of requests, and that go. The first touch what all use.
def crowd(server, part):
    before, held = 0, []
    for i in range(1500):
        if i == 1000:
            time.sleep(0.3)
            before = server.memory()
        held.append(server.dial())
        held[-1].sendall(part)
    time.sleep(0.3)
    each = (server.memory() - before) // 500
    check('a part of a request is small', each < 4000 or few, each)
    for s in held[::2]:                     # these reset the connection
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    for s in held:
        s.close()


# A client that sends millions of requests, and reads nothing.
def flood(server, one, least):
    before = server.memory()
    with server.dial() as s:
        sent = pour(s, one * 1000, 1 << 28)
        check('a flood is stopped', least <= sent < 1 << 28, sent)
        grown = server.memory() - before
        check('a flood takes no memory', grown < 1 << 20 or few, grown)
        s.settimeout(30)
        late = time.time()
        s.recv(1)                           # the kernel has answers
        while time.time() - late < 15:      # it is closed after CONN_TIME
            try:
                s.send(b'x')
            except socket.timeout:
                pass
            except OSError:
                break
            s.settimeout(0.2)
            time.sleep(0.2)
        else:
            check('a flood is closed', False)


# Millions of requests by a client that reads.
def pipeline(server, one, answer, nr):
    with server.dial() as s:
        sender = threading.Thread(target=lambda: [s.sendall(one * 1000)
                                                  for _ in range(nr // 1000)])
        sender.start()
        got = left = len(answer) * nr
        while left > 0:
            data = s.recv(min(1 << 20, left))
            if not data:
                break
            left -= len(data)
        sender.join()
        check('%d pipelined' % nr, left == 0, got, left)


# A client that sends a byte now and then.
def slow(server, part):
    begun = time.time()
    with server.dial() as s:
        s.sendall(part)
        try:
            for _ in range(100):
                s.sendall(b'x')
                time.sleep(0.25)
            check('a slow request is ended', False)
        except OSError:
            check('a slow request has its time', time.time() - begun > 5)


def keys(server):
    return int(ask(server, resp('DBSIZE'))[1:])


def check_cache(server):
    def error(request, text):
        got = ask(server, request)
        check(text, got.startswith(b'-') and text.encode() in got and
              got.count(b'\r\n') == 1, got)

    many = b'SET', b'GET', b'DEL'
    stream = (resp('ping') + resp('SET', 'k', 'a\r\nb') + resp('GET', 'k') +
              resp('get', 'none') + resp('DEL', 'k', 'none', 'k') + b'*0\r\n' +
              resp('PING', 'x') + resp('SET', '', '') + resp('GET', '') +
              resp('TTL', '') + resp('TTL', 'none'))
    want = (b'+PONG\r\n+OK\r\n$4\r\na\r\nb\r\n$-1\r\n:1\r\n$1\r\nx\r\n+OK\r\n'
            b'$0\r\n\r\n:-1\r\n:-2\r\n')
    with Good(server):
        torn(server, stream, want)
    # Ends.
    got = ask(server, resp('SET', 'e', 1, 'EX', 100), resp('TTL', 'e'),
              resp('EXPIRE', 'e', 50), resp('TTL', 'e'), resp('SET', 'e', 2),
              resp('TTL', 'e'), resp('EXPIRE', 'e', 0), resp('GET', 'e'),
              resp('EXPIRE', 'e', 9), resp('SET', 'e', 3, 'px', 1))
    check('ends', got == b'+OK\r\n:100\r\n:1\r\n:50\r\n+OK\r\n:-1\r\n:1\r\n$-1\r\n'
          b':0\r\n+OK\r\n', got)
    time.sleep(0.01)
    check('has ended', ask(server, resp('GET', 'e')) == b'$-1\r\n')
    for i in range(20):
        ask(server, *[resp('SET', '%d.%d' % (i, j), 1, 'PX', 1) for j in range(500)])
    until = time.time() + 20
    while keys(server) != 2 and time.time() < until:
        time.sleep(0.1)
    check('is swept', keys(server) == 2, keys(server))
    # The table grows.
    with server.dial() as s:
        for what, answer in ((('SET', '%d', '%d'), '+OK\r\n'),
                             (('GET', '%d'), '$5\r\n%d\r\n'),
                             (('DEL', '%d'), ':1\r\n')):
            for i in range(10000, 50000, 500):
                s.sendall(b''.join(resp(*(w.replace('%d', str(j)) for w in what))
                                   for j in range(i, i + 500)))
                part = ''.join(answer.replace('%d', str(j))
                               for j in range(i, i + 500)).encode()
                if read(s, len(part)) != part:
                    check('40,000 keys', False, what, i)
                    break
            else:
                check('40,000 keys', True)
    # A model.
    model, asked, want = {}, [], []
    for _ in range(30000):
        what, key = random.choice(many), b'%d' % random.randrange(3000)
        if what == b'SET':
            model[key] = b'v' * random.choice((0, 1, 5, 70, 300))
            asked.append(resp(what, key, model[key]))
            want.append(b'+OK\r\n')
        elif what == b'GET':
            v = model.get(key)
            asked.append(resp(what, key))
            want.append(b'$-1\r\n' if v is None else b'$%d\r\n%s\r\n' % (len(v), v))
        else:
            asked.append(resp(what, key))
            want.append(b':%d\r\n' % (model.pop(key, None) is not None))
    with server.dial() as s:
        for i in range(0, 30000, 300):
            s.sendall(b''.join(asked[i:i + 300]))
            part = b''.join(want[i:i + 300])
            if read(s, len(part)) != part:
                check('a model', False, i)
                break
        else:
            check('a model', keys(server) == len(model) + 2)
    # A long value, changed while it is sent.
    big = bytes(random.randrange(256) for _ in range(1 << 16)) * 16
    check('long', ask(server, resp('SET', 'big', big), resp('GET', 'big')) ==
          b'+OK\r\n$1048576\r\n' + big + b'\r\n')
    with server.dial() as s:
        s.sendall(resp('GET', 'big') * 40)
        s.shutdown(socket.SHUT_WR)
        time.sleep(0.3)
        # The memory of the value, if it is free, gets other bytes.
        check('long, changed', ask(server, resp('SET', 'big', 'x' * 1000000),
                                   resp('SET', 'other', b'z' * (1 << 20)),
                                   resp('DEL', 'big', 'other')) ==
              b'+OK\r\n+OK\r\n:2\r\n')
        got = read(s, 40 * (len(big) + 12))
        whole = b'$1048576\r\n' + big + b'\r\n'
        nr = len(got) // len(whole)
        check('long, while it is sent', 0 < nr < 40 and
              got == whole * nr + b'$-1\r\n' * (40 - nr), nr)
    # Errors of the command go on; errors of the protocol end.
    for words, text in (
            (('FOO',), 'unknown command'), (('GET',), 'wrong number'),
            (('SET', 'a', 'b', 'EX'), 'syntax error'),
            (('SET', 'a', 'b', 'EX', '1x'), 'not an integer'),
            (('SET', 'a', 'b', 'EX', '-1'), 'invalid expire'),
            (('SET', 'a', 'b', 'EX', '9' * 18), 'in'),
            (('EXPIRE', 'a', '9' * 30), 'not an'), (('EXPIRE', 'a', ''), 'not an'),
            (('EXPIRE', 'a', '-'), 'not an'),
            (('EXPIRE', 'a', '9223372036854775808'), 'not an'),
            (('EXPIRE', 'a', '-9223372036854775809'), 'not an'),
            (('EXPIRE', 'a', '9223372036854775807'), 'invalid expire'),
            (('EXPIRE', 'a', '-9223372036854775808'), 'invalid expire'),
            (('EXPIRE', 'a', '-9223372036854776'), 'invalid expire')):
        error(resp(*words), text)
    got = ask(server, resp('SET', 'e', 1), resp('EXPIRE', 'e', -1 << 63),
              resp('EXPIRE', 'e', -(1 << 63) // 1000), resp('GET', 'e'),
              resp('EXPIRE', 'e', -((1 << 63) // 1000)), resp('GET', 'e'))
    check('a negative end', re.fullmatch(
        rb'\+OK\r\n(-ERR invalid expire time .*\r\n){2}\$1\r\n1\r\n:1\r\n\$-1\r\n',
        got), got)
    for request, text in (
            (b'GET a\r\n', "expected '*'"), (b'*x\r\n', 'invalid multibulk'),
            (b'*-1\r\n', 'invalid multibulk'), (b'*1025\r\n', 'invalid multibulk'),
            (b'*99999999999999999999', 'invalid multibulk'),
            (b'*1\n', 'invalid multibulk'), (b'*1\rx', 'invalid multibulk'),
            (b'*2\r\n:1\r\n', "expected '$'"), (b'*2\r\n$-1\r\n', 'invalid bulk'),
            (b'*2\r\n$1048577\r\n', 'invalid bulk'),
            (b'*2\r\n$4294967297\r\n', 'invalid bulk'),
            (b'*2\r\n$18446744073709551615\r\n', 'invalid bulk'),
            (b'*1\r\n$4\r\nPINGxx', 'CR LF'),
            (b'*3\r\n' + b'$1000000\r\n%s\r\n' % (b'x' * 1000000) * 2 +
             b'$1000000\r\n', 'too long')):
        error(request + b'y' * 40, 'Protocol error: ')
        error(request, text)
    with Good(server):
        crowd(server, b'*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1048576\r\nxxxx')
        pipeline(server, resp('SET', 'p', 1), b'+OK\r\n',
                 20000 if few else 1000000)
        flood(server, resp('GET', 'good'), 100000)
    for i in range(300):                    # random bytes, and random damage
        bad = bytearray(stream)
        for _ in range(random.randrange(1, 4)):
            bad[random.randrange(len(bad))] = random.choice(b'*$\r\n019-\x00\xff')
        try:
            ask(server, bytes(bad))
        except OSError:
            pass
    check('goes on', ask(server, resp('PING')) == b'+PONG\r\n')
    with Good(server):
        slow(server, b'*1\r\n$1000\r\n')


def limits_cache():
    server = Server('-m', '4', '-c', '3')
    got = ask(server, *[resp('SET', i, 'x' * 100000) for i in range(60)])
    fits = got.count(b'+OK\r\n')
    check('memory has an end', 20 < fits < 42 and got.count(b'-OOM ') == 60 - fits,
          fits)
    check('room again', ask(server, *[resp('DEL', i) for i in range(60)],
                            resp('SET', 'a', 'x' * 100000)) ==
          b':1\r\n' * fits + b':0\r\n' * (60 - fits) + b'+OK\r\n')
    held = [server.dial() for _ in range(3)]
    for s in held:
        s.sendall(resp('PING'))
        check('has a place', read(s, 7) == b'+PONG\r\n')
    with server.dial() as s:
        s.sendall(resp('PING'))
        s.settimeout(0.3)
        try:
            check('no place', s.recv(1) == b'')
        except socket.timeout:
            check('waits for a place', True)
        held[0].close()
        s.settimeout(20)
        check('gets a place', read(s, 7) == b'+PONG\r\n')
    server.stop()


def check_jobs(server):
    stream = (b'put 0 a\ntake 9000\ndone\ncount\ntake 0\nput x\nput 1\nput 1 \n'
              b'done\ntake x\nnothing\n\nput 99999999999999 a\n')
    fixed = re.compile(rb'put (\d+)\njob \1 a\ndone \1\ncount 0 0 0\nnone\n'
                       rb'error put .*\nerror put .*\nerror put .*\n'
                       rb'error no job .*\nerror take .*\nerror unknown .*\n'
                       rb'error unknown .*\nerror put .*\n')

    def right(got):
        return fixed.fullmatch(got) is not None
    got = ask(server, stream, lines=13)
    check('whole', right(got), got)
    with Good(server), server.dial() as s:
        for at in range(1, len(stream)):
            s.sendall(stream[:at])
            time.sleep(0.0005)
            s.sendall(stream[at:])
            got = b''
            while got.count(b'\n') < 13:
                got += s.recv(4096)
            if not right(got):
                check('cut at %d' % at, False, got)
                break
        else:
            check('cut anywhere', True)
    # By due time, not by the order of put.
    got = ask(server, b'put 300 c\nput 100 a\nput 200 b\n' +
              b'take 20000\ndone\n' * 3, lines=9)
    check('in order', re.findall(rb'job \d+ (.)', got) == [b'a', b'b', b'c'], got)
    begun = time.time()
    ask(server, b'put 400 late\ntake 20000\ndone\n', lines=3)
    check('never early', time.time() - begun >= 0.4)
    # Takers that go give jobs back.
    ask(server, b'put 0 again\ntake 20000\n', lines=2)
    with server.dial() as s:
        s.sendall(b'take 20000\ntake 20000\n')
        got = read(s, 39)
        check('is due again', b' again\nerror done comes' in got, got)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    got = ask(server, b'take 20000\ndone\ncount\n', lines=3)
    check('after a reset, too', b' again\n' in got and b'count 0 0 0' in got, got)
    # A taker that goes while it waits.
    for i in range(50):
        with server.dial() as s:
            s.sendall(b'take 500\n')
    got = ask(server, b'put 1 x\n')
    time.sleep(1)
    got = ask(server, b'take 20000\ndone\ncount\n', lines=3)
    check('no job is lost', b' x\n' in got and got.endswith(b'count 0 0 0\n'), got)
    long = b'put 0 ' + b'x' * 4089
    check('the longest line', ask(server, long + b'\ntake 20000\ndone\n', lines=3)
          .count(b'x') == 4089)
    check('too long', ask(server, long + b'yy' * 9000).startswith(b'error a line'))
    # Several takers, each job once.
    with Good(server):
        nr, seen, lock = 2000, [], threading.Lock()

        def taker():
            with server.dial() as s, s.makefile('rwb') as f:
                while True:
                    f.write(b'take 8000\n')
                    f.flush()
                    line = f.readline()
                    if line == b'none\n':
                        return
                    with lock:
                        seen.append(line.split()[2])
                    f.write(b'done\n')
                    f.flush()
                    f.readline()
        takers = [threading.Thread(target=taker) for _ in range(4)]
        for t in takers:
            t.start()
        ask(server, *[b'put %d %d\n' % (random.randrange(500), i)
                      for i in range(nr)])
        for t in takers:
            t.join()
        check('each job once', sorted(map(int, seen)) == list(range(nr)), len(seen))
        crowd(server, b'put 100000 part')
        flood(server, b'count\n', 10000)
    with Good(server):
        slow(server, b'put')
    pipeline_jobs(server)


def pipeline_jobs(server):
    nr = 20000 if few else 1000000
    before = server.memory()
    with server.dial() as s, s.makefile('rb') as f:
        sender = threading.Thread(target=lambda: [
            s.sendall(b'put 3600000 sleeps\n' * 1000) for _ in range(nr // 1000)])
        sender.start()
        lines = sum(f.readline().startswith(b'put ') for _ in range(nr))
        sender.join()
    each = (server.memory() - before) / nr
    check('a million sleep', lines == nr and ask(server, b'count\n') ==
          b'count %d 0 0\n' % nr, lines)
    check('each in less than 500 bytes', each < 500 or few, each)
    with Good(server):
        check('and others do not wait', b' now\n' in
              ask(server, b'put 1 now\ntake 20000\ndone\n', lines=3))


def limits_jobs():
    server = Server('-m', '1')
    got = ask(server, b'put 100 x\n' * 6000)
    fits = got.count(b'put ')
    check('memory has an end', 1000 < fits < 5000 and
          got.count(b'error no memory') == 6000 - fits, fits)
    ask(server, b'take 20000\ndone\n' * fits, lines=2 * fits)
    check('room again', ask(server, b'put 0 x\n').startswith(b'put '))
    server.stop()
    takers()


# Clients that wait for a job, and go in each way, give up their places.
def takers():
    server = Server('-c', '20')
    for way in 'close', 'reset', 'requests behind':
        held = [server.dial() for _ in range(20)]
        for s in held:
            s.sendall(b'take 3600000\n')
        time.sleep(0.3)
        for s in held:
            if way == 'reset':
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack('ii', 1, 0))
            if way == 'requests behind':
                s.sendall(b'count\n')
            s.close()
        check('places after ' + way, ask(server, b'count\n') == b'count 0 0 0\n')
        if failed:                          # each wait below would take its 20 s
            server.process.kill()
            return
    check('half closed', ask(server, b'take 3600000\ncount\n') ==
          b'none\ncount 0 0 0\n')
    # Who goes may have been given a job, or not.
    with server.dial() as s:
        s.sendall(b'take 3600000\n')
        time.sleep(0.3)
        s.sendall(b'count\n')
    check('given to who has gone', b' x\n' in ask(
        server, b'put 0 x\n', b'take 20000\ndone\n', lines=3))
    for i in range(100):
        with server.dial() as s:
            s.sendall(b'take 3600000\n')
            ask(server, b'put 1 %d\n' % i)
            time.sleep(random.randrange(30) / 10000)
    got = ask(server, b'take 20000\ndone\n' * 100 + b'count\n', lines=201)
    check('none is lost', got.endswith(b'count 0 0 0\n') and sorted(map(int, re.findall(
        rb'job \d+ (\d+)', got))) == list(range(100)), got)
    # Requests behind a take do not end it; who came first is first.
    with server.dial() as a, server.dial() as b, server.dial() as late:
        for s, wait in (a, 20000), (b, 20000), (late, 1200):
            s.sendall(b'take %d\n' % wait)
            time.sleep(0.1)
            s.sendall(b'done\n')
        time.sleep(0.3)
        check('none in time', read(late, 28) == b'none\nerror no job was taken\n')
        ask(server, b'put 0 first\n')
        check('the first', b' first\ndone' in read(a, 20))
        ask(server, b'put 0 second\n')
        check('the second', b' second\ndone' in read(b, 20))
    server.stop()


# The kernel asks whether the host of a silent client is there.
def check_alive(server):
    with server.dial() as s:
        at = '%04X' % server.port
        ask(server, b'\n')
        with open('/proc/net/tcp') as f:
            rows = [row.split() for row in f]
        timers = [row[5] for row in rows if row[1].endswith(':' + at) and
                  row[2].endswith(':%04X' % s.getsockname()[1])]
        check('keep-alive', len(timers) == 1 and timers[0].startswith('02:'), timers)


random.seed(33)
server = Server()
globals()['check_' + kind](server)
check_alive(server)
server.stop()
globals()['limits_' + kind]()
print('%d passed, %d failed' % (passed, failed))
sys.exit(failed > 0)
