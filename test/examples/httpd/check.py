# SPDX-License-Identifier: MIT
# check.py SERVER DIR [CHECK]: asks the server of examples/httpd, well and badly.
# Prints what is wrong, and "N passed, N failed". DIR is empty, for its files.

import os, re, resource, signal, socket, struct, subprocess, sys, threading, time

program, folder = sys.argv[1], sys.argv[2]
root = folder + '/root'
passed = failed = 0
GET = b'GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n'
LAST = GET[:-2] + b'Connection: close\r\n\r\n'


def check(what, ok, *more):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print('FAIL ', what, *more)


class Server:
    def __init__(self, *options, fds=()):
        self.process = subprocess.Popen(
            [program, '-p', '0', '-r', root, '-n', '2'] + list(options),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            pass_fds=fds)
        line = self.process.stdout.readline()
        found = re.fullmatch(r'listening on 127\.0\.0\.1:(\d+)\n', line)
        if not found:
            sys.exit('FAIL  no server: ' + line + self.process.stderr.read())
        self.port = int(found[1])

    def dial(self):
        return socket.create_connection(('127.0.0.1', self.port), 10)

    def signal(self, number):
        self.process.send_signal(number)

    # Waits for the end. Returns the status, and what it has written.
    def wait(self):
        try:
            _, errors = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, errors = self.process.communicate()
            errors += 'it did not end'
        return self.process.returncode, errors

    def stop(self, what):
        self.signal(signal.SIGTERM)
        end = self.wait()
        check(what + ': ends well', end == (0, ''), end)


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body


# Reads answers until the end of the stream, or nr of them. heads: to HEAD.
def read_answers(s, nr=1 << 30, heads=False):
    answers, data, begin = [], b'', 0
    while len(answers) < nr:
        at = data.find(b'\r\n\r\n', begin)
        size = None
        if at >= 0:
            lines = data[begin:at].decode().split('\r\n')
            fields = dict(line.lower().split(': ', 1) for line in lines[1:])
            status = int(lines[0].split()[1])
            size = at + 4
            if not heads:
                size += int(fields['content-length'])
        if size is not None and len(data) >= size:
            answers.append(Answer(status, fields, data[at + 4:size]))
            begin = size
            continue
        data, begin = data[begin:], 0
        try:
            more = s.recv(1 << 20)
        except (ConnectionResetError, socket.timeout):
            break
        if not more:
            break
        data += more
    return answers, data[begin:]


# Sends pieces, and reads all answers.
def ask(server, *pieces, heads=False, shut=True):
    with server.dial() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                s.sendall(piece)
            if shut:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answers, left = read_answers(s, heads=heads)
        if left:
            check('no bytes between answers', False, left[:80])
        return answers


def statuses(answers):
    return [a.status for a in answers]


def request(path, *fields, method='GET', version='1.1'):
    return ('\r\n'.join(['%s %s HTTP/%s' % (method, path, version), 'Host: a'] +
                        list(fields)) + '\r\n\r\n').encode('latin-1')


def metrics(server):
    body = ask(server, request('/metrics'))[0].body.decode()
    return dict(line.rsplit(' ', 1) for line in body.split('\n')[:-1])


def make_files():
    os.makedirs(root + '/sub/deep')
    files = {'index.html': b'index', 'a b': b'space', 'sub/index.html': b'sub',
             'small': bytes(range(256)) * 16, 'more': b'm' * 4097,
             'large': bytes(range(256)) * 4096, 'empty': b'', '..x': b'dots',
             'sub/deep/x.css': b'css', 'secret': b'no'}
    for name, data in files.items():
        with open(root + '/' + name, 'wb') as f:
            f.write(data)
    with open(folder + '/outside', 'wb') as f:
        f.write(b'outside')
    os.symlink('../outside', root + '/link')
    os.symlink('..', root + '/up')
    os.symlink('/etc/passwd', root + '/absolute')
    os.symlink('small', root + '/inside')
    os.mkfifo(root + '/fifo')
    os.chmod(root + '/secret', 0)
    return files


def check_files(server, files):
    for name, data in files.items():
        path = '/' + name.replace(' ', '%20')
        a = ask(server, request(path))
        if name == 'secret':
            wanted = 200 if os.getuid() == 0 else 403
            check('a file that may not be read', statuses(a) == [wanted])
            continue
        check(name, statuses(a) == [200] and a[0].body == data)
        h = ask(server, request(path, method='HEAD'), heads=True)
        check('HEAD ' + name, statuses(h) == [200] and
              h[0].fields['content-length'] == str(len(data)) and
              {**h[0].fields, 'date': ''} == {**a[0].fields, 'date': ''})
    check('index', ask(server, request('/'))[0].body == b'index')
    check('sub', ask(server, request('/sub/?x'))[0].body == b'sub')
    check('type', ask(server, request('/sub/deep/x.css'))[0].fields[
        'content-type'] == 'text/css')
    check('encoded', ask(server, request('/%73mal%6c'))[0].status == 200)


def check_escapes(server):
    for path in ['/..', '/../outside', '/sub/../../outside', '/%2e%2e/outside',
                 '/%2E%2e%2foutside', '/..%2foutside', '/sub/%2e%2e/%2e%2e/'
                 'outside', '/link', '/up/outside', '/absolute', '/inside',
                 '//..//outside', '/sub/..', '/fifo', '/sub', '/none',
                 '/small/', '/small/x', '/' + 300 * 'x', '/..;/outside',
                 '/%252e%252e/outside', '/.../outside', '/\\..\\outside',
                 '/sub/../small', '/sub/%2e%2e%2fsmall', '/sub/deep/../../small',
                 '/sub/deep/../x.css', '/none/../small']:
        got = ask(server, request(path))
        wanted = [400] if '\\' in path else [404]
        check('escape ' + path[:40], statuses(got) == wanted, statuses(got))
    for path in ['/%', '/%4', '/%zz', '/%00', '/a%00b', '/small%00.html', 'x',
                 '*', 'http:/a', 'http://', 'http:///', 'http://:80/', 'http://u@a/',
                 'http://a:b/', 'http://[::1/', 'http://[]/', 'http://a b/',
                 'http://%4/', 'https://a/', 'ftp://a/', 'http://a\\/']:
        got = ask(server, request(path))
        check('path ' + path, statuses(got) == [400], statuses(got))


# Heads, each with the status of its answer.
BAD = [
    (b'GET / HTTP/1.1\r\n\r\n', 400),                   # no Host
    (b'GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost : a\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a b\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a,b:1:2\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: u@a\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: [::1\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: [x]\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: %4\r\n\r\n', 400),
    (b'GET http://a/ HTTP/1.1\r\n\r\n', 400),
    (b'GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\n Host: a\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n', 400),
    (b'GET / HTTP/1.1\nHost: a\n\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n', 400),
    (b'GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n', 400),
    (b'GET  / HTTP/1.1\r\nHost: a\r\n\r\n', 400),
    (b'GET / HTTP/1.1 \r\nHost: a\r\n\r\n', 400),
    (b'GET /\r\n\r\n', 400),
    (b'GET / HTTP/1.x\r\nHost: a\r\n\r\n', 400),
    (b'GET / http/1.1\r\nHost: a\r\n\r\n', 400),
    (b'GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n', 400),
    (b'\x16\x03\x01\x02\x00', 400),                     # TLS
    (b'\r\n\r\n', 400),
    (b'GET / HTTP/2.0\r\nHost: a\r\n\r\n', 505),
    (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505),
    (b'GET /' + 4100 * b'a', 414),
    (b'GET /' + 4100 * b'a' + b' HTTP/1.1\r\nHost: a\r\n\r\n', 414),
    (b'GET / HTTP/1.1\r\nHost: a\r\nX: ' + 8200 * b'a', 431),
    (b'GET / HTTP/1.1\r\nHost: a\r\n' + 2000 * b'X: a\r\n' + b'\r\n', 431),
]


# Heads with a body, and of smuggling.
def body(fields, data=b'', version=b'1.1'):
    return (b'POST / HTTP/' + version + b'\r\nHost: a\r\n' + fields +
            b'\r\n\r\n' + data)


BAD += [
    (body(b'Content-Length: 5\r\nContent-Length: 5', b'Hello'), 400),
    (body(b'Content-Length: 5\r\nContent-Length: 6', b'Hello'), 400),
    (body(b'Content-Length: 5, 5', b'Hello'), 400),
    (body(b'Content-Length: +5', b'Hello'), 400),
    (body(b'Content-Length: 0x5', b'Hello'), 400),
    (body(b'Content-Length:', b'Hello'), 400),
    (body(b'Content-Length: -1'), 400),
    (body(b'Content-Length : 5', b'Hello'), 400),
    (body(b'Content-Length: 99999999999999999999'), 413),
    (body(b'Content-Length: 1048577'), 413),
    (body(b'Transfer-Encoding: chunked\r\nContent-Length: 5', b'0\r\n\r\n'),
     400),
    (body(b'Content-Length: 5\r\nTransfer-Encoding: chunked', b'0\r\n\r\n'),
     400),
    (body(b'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked'), 400),
    (body(b'Transfer-Encoding: chunked', version=b'1.0'), 400),
    (body(b'Transfer-Encoding: chunked', b'5\r\nHello\r\n0\r\n\r\n'), 411),
    (body(b'Transfer-Encoding : chunked', b'0\r\n\r\n'), 400),
    (body(b'Transfer-Encoding: gzip, chunked', b'0\r\n\r\n'), 411),
]


# What stands behind a head that is refused is never taken for a request.
def check_bad(server):
    for text, status in BAD:
        got = ask(server, text, shut=b'\n' not in text[-3:])
        check(text[:60], statuses(got) == [status], statuses(got))
        if got:
            check('closes', got[0].fields.get('connection') == 'close', text)
        got = ask(server, GET + text + GET)
        if text.endswith(b'\n') or status == 431:
            check(b'after a good one: ' + text[:60],
                  statuses(got) == [200, status], statuses(got))


def check_good(server):
    check('10 in a row', statuses(ask(server, *10 * [GET])) == 10 * [200])
    check('pipelined', statuses(ask(server, 300 * GET)) == 300 * [200])
    check('closes', statuses(ask(server, GET + LAST + GET)) == [200, 200])
    a = ask(server, GET)[0]
    check('plaintext', a.body == b'Hello, World!' and 'date' in a.fields)
    check('query', ask(server, request('/plaintext?a=b'))[0].status == 200)
    check('blank line before', statuses(ask(server, b'\r\n' + GET)) == [200])
    for split in range(len(GET)):
        got = ask(server, GET + GET[:split], GET[split:] + LAST, shut=False)
        check('split', statuses(got) == 3 * [200], split)
    bytes_ = [LAST[i:i + 1] for i in range(len(LAST))]
    check('byte by byte', statuses(ask(server, *bytes_)) == [200])
    for fields, version, answers in [
            ([], '1.0', 1), (['Connection: keep-alive'], '1.0', 1),
            (['Connection: close'], '1.1', 1),
            (['Connection: x,CLOSE'], '1.1', 1), (['A: b'], '1.1', 2)]:
        text = request('/plaintext', *fields, version=version)
        got = ask(server, 2 * text)
        check('keep-alive', statuses(got) == answers * [200], text)
    got = ask(server, request('/large') + request('/none') + request('/small'))
    check('files in a row', statuses(got) == [200, 404, 200] and
          len(got[0].body) == 1 << 20 and len(got[2].body) == 4096)
    for method in ['POST', 'PUT', 'DELETE', 'OPTIONS', 'get', 'X-Y']:
        got = ask(server, request('/', method=method) + GET)
        check(method, statuses(got) == [405, 200] and
              got[0].fields['allow'] == 'get, head', statuses(got))
    check('OPTIONS *', statuses(ask(server, request(
        '*', method='OPTIONS'))) == [405])
    check('bodies', statuses(ask(
        server, body(b'Content-Length: 5', b'Hello') + GET,
        body(b'Content-Length: 100000', 50000 * b'x'), 50000 * b'x' +
        request('/', 'Content-Length: 3') + b'abc' + GET)) ==
        [405, 200, 405, 200, 200])
    for host in [b'', b'a', b'a.b:80', b'[::1]:8080', b'a%20b', b'127.0.0.1:']:
        got = ask(server, GET.replace(b': a', b': ' + host))
        check('host', statuses(got) == [200], host)
    for target, text in [('http://a/sub/', b'sub'), ('HTTP://a:80', b'index'),
                         ('http://b?x', b'index'), ('http://[::1]/?/y', b'index'),
                         ('http://a/plaintext?b', b'Hello, World!')]:
        got = ask(server, request(target) + GET)
        check('target ' + target, statuses(got) == [200, 200] and
              got[0].body == text, statuses(got))
    check('half a request', ask(server, GET[:-1]) == [])
    check('nothing', ask(server, b'') == [])


# A client that asks before it sends a body is answered, and the connection ends:
# it may send the body or not, and no part of it is taken for a request.
def check_expect(server):
    def asks(length, method='GET', version='1.1'):
        return request('/plaintext', 'Expect: 100-Continue', 'Content-Length: %d' %
                       length, method=method, version=version)
    for text, status in ((asks(99), 200), (asks(99, method='POST'), 405),
                         (asks(99, version='1.0'), 200)):
        with server.dial() as s:
            s.sendall(GET + text)
            got, _ = read_answers(s, 2)
            check('expects', statuses(got) == [200, status] and
                  got[1].fields.get('connection') == 'close', statuses(got))
            try:
                s.sendall(GET)
                end = s.recv(1)
            except OSError as error:
                end = error
            check('expects, then the end', end == b'', end)
    got = ask(server, asks(5) + b'Hello' + GET + asks(0) + GET)
    check('expects, and sends', statuses(got) == 4 * [200], statuses(got))


# Who takes, or sends, at a good rate may be as slow as that. The buffers of the
# kernel must not hide it.
def check_steady():
    server = Server('-t', '2')
    with open(root + '/long', 'wb') as f:
        f.truncate(12 << 20)
    with socket.socket() as reader, server.dial() as writer:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        reader.connect(('127.0.0.1', server.port))
        reader.settimeout(10)
        reader.sendall(request('/long', 'Connection: close'))
        writer.sendall(body(b'Content-Length: %d' % (20 << 15)))
        got, reset = 0, None
        try:
            for _ in range(20):
                got += len(reader.recv(1 << 16))
                writer.sendall(bytes(1 << 15))
                time.sleep(0.25)
            writer.sendall(LAST)
            more = b'x'
            while more:
                more = reader.recv(1 << 20)
                got += len(more)
        except OSError as error:
            reset = error
        check('a steady reader', got > 12 << 20, got, reset)
        check('a steady writer', statuses(read_answers(writer)[0]) == [405, 200])
    server.stop('steady')


# A client that takes its answers late gets all of them.
def check_slow_reader(server):
    for text, nr in (request('/large'), 16), (GET, 60000):
        with server.dial() as s:
            writer = threading.Thread(target=s.sendall, args=(
                text * nr + LAST,))
            writer.start()
            time.sleep(0.3)
            answers, _ = read_answers(s)
            writer.join()
            check('a slow reader', statuses(answers) == (nr + 1) * [200],
                  len(answers))


# Clients that go away while an answer is sent.
def check_gone(server):
    for i in range(40):
        s = server.dial()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack('ii', i % 2, 0))
        s.sendall(8 * request('/large') + 8 * GET)
        s.recv(1 + i * 50000)
        s.close()
    check('clients that go away', statuses(ask(server, GET)) == [200])


# A client that still sends when it is refused can read why, and is not reset.
def check_last(server):
    with server.dial() as s:
        s.sendall(body(b'Content-Length: 2000000'))
        try:
            for _ in range(3):
                time.sleep(0.1)
                s.sendall(200000 * b'x')
            got = statuses(read_answers(s, 1)[0])
            end = s.recv(1)
        except OSError as error:
            got = end = error
        check('the last answer', got == [413] and end == b'', got, end)


# Sends bytes of a body now and then. Returns whether the connection ends meanwhile.
def drips(s):
    s.settimeout(0.1)
    for _ in range(60):
        try:
            s.sendall(b'x')
            while s.recv(4096):
                pass
            return True
        except socket.timeout:
            pass
        except OSError:
            return True
    return False


def check_times():
    server = Server('-t', '1', '-k', '2')
    with server.dial() as slow, server.dial() as idle, server.dial() as bad, \
            server.dial() as deaf:
        slow.sendall(GET + GET[:20])
        bad.sendall(body(b'Content-Length: 9', b'x'))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(30 * request('/large'))
        begun = time.time()
        for i in range(20, 30):
            time.sleep(0.15)
            try:
                slow.sendall(GET[i:i + 1])
            except OSError:
                break
        check('408', statuses(read_answers(slow)[0]) == [200, 408])
        check('a slow body', statuses(read_answers(bad)[0]) == [405])
        check('idle ends', idle.recv(1) == b'')
        check('not too early', time.time() - begun >= 1.9)
        with server.dial() as drip:
            drip.sendall(body(b'Content-Length: 99'))
            check('a body by drops ends', drips(drip))
        # Who takes nothing goes, however much there is to take.
        for _ in range(200):
            left = metrics(server)['httpd_connections']
            if left == '1':
                break
            time.sleep(0.05)
        check('who reads nothing goes', left == '1', left)
    server.stop('times')


def check_limit():
    server = Server('-c', '4', '-n', '1')
    held = [server.dial() for _ in range(4)]
    for s in held:
        s.sendall(GET)
        read_answers(s, 1)
    more = [server.dial() for _ in range(8)]
    for s in more:
        s.sendall(LAST)
    time.sleep(0.2)
    before = os.times()
    more[0].settimeout(0.3)
    try:
        check('beyond the limit', more[0].recv(1) == 'waits')
    except socket.timeout:
        check('beyond the limit waits', True)
    with open('/proc/%d/stat' % server.process.pid) as f:
        ticks = [int(x) for x in f.read().rsplit(') ', 1)[1].split()[11:13]]
    check('does not spin', sum(ticks) < 20, ticks, before)
    for s in held:
        s.close()
    for s in more:
        s.settimeout(10)
        check('then served', statuses(read_answers(s)[0]) == [200])
        s.close()
    server.stop('limit')


# A stop while clients ask: no answer that was begun is lost.
def check_stop():
    server = Server('-l', folder + '/stop.log')
    counts, stray = [], []

    def client():
        nr = 0
        try:
            with server.dial() as s:
                while True:
                    path = '/large' if nr % 8 == 7 else '/plaintext'
                    s.sendall(2 * request(path))
                    got, left = read_answers(s, 2)
                    nr += len(got)
                    if left or statuses(got) != 2 * [200]:
                        stray.append((left[:20], statuses(got), nr))
                    if len(got) < 2 or got[1].fields.get('connection'):
                        break
        except OSError as error:
            stray.append(error)
        counts.append(nr)

    clients = [threading.Thread(target=client) for _ in range(8)]
    idle = server.dial()
    half = server.dial()
    half.sendall(GET[:10])
    for c in clients:
        c.start()
    time.sleep(0.5)
    server.signal(signal.SIGTERM)
    time.sleep(0.8)
    half.sendall(GET[10:])
    got = read_answers(half)[0]
    check('what has begun is answered', statuses(got) == [200] and
          got[0].fields.get('connection') == 'close', statuses(got))
    check('idle connections end', idle.recv(1) == b'')
    for c in clients:
        c.join()
    check('a stop loses nothing', stray == [] and min(counts) > 2, stray,
          counts)
    check('the stop', server.wait() == (0, ''))
    with open(folder + '/stop.log') as f:
        lines = f.readlines()
    check('each answer is in the log', len(lines) == sum(counts) + 1,
          len(lines), sum(counts))


# As many clients as places, at whichever listener: each is answered, and stays.
# One more waits until any of them goes.
def check_places():
    for nr in range(1, 5):
        server = Server('-n', str(nr), '-c', '9')
        for _ in range(5):
            held = [server.dial() for _ in range(9)]
            for s in held:
                s.settimeout(5)
                s.sendall(GET)
            got = []
            while len(got) < 9 and (not got or got[-1] == [200]):
                got.append(statuses(read_answers(held[len(got)], 1)[0]))
            check('a place for each', got == 9 * [[200]], nr, got)
            more = server.dial()
            more.sendall(GET)
            held.pop().close()
            check('then a place', statuses(read_answers(more, 1)[0]) == [200])
            for s in held + [more]:
                s.close()
            if failed:
                break
        server.stop('places')


# Clients that come again and again while a server stops: each gets an answer,
# the last with Connection: close, or is refused. Some keep their connections.
def check_stop_coming():
    server = Server()
    lost, last, refused = [], [], []

    def client():
        s = None
        while True:
            try:
                s = s or server.dial()
            except ConnectionRefusedError:
                refused.append(1)
                return
            except OSError as error:
                lost.append(error)
                return
            try:
                s.sendall(GET)
                got, _ = read_answers(s, 1)
            except OSError as error:
                got = error
            if got == [] or isinstance(got, OSError) or statuses(got) != [200]:
                lost.append(got)
                return
            if 'connection' in got[0].fields:
                last.append(1)
                s.close()
                s = None

    clients = [threading.Thread(target=client) for _ in range(16)]
    for c in clients:
        c.start()
    time.sleep(0.3)
    server.stop('coming')
    for c in clients:
        c.join()
    check('who comes at a stop is answered or refused', lost == [] and
          len(refused) == 16 and len(last) >= 16, lost, len(refused), len(last))


# All places are taken at the stop, and clients wait in the backlog.
def check_stop_full():
    server = Server('-c', '3', '-g', '8')
    held = [server.dial() for _ in range(3)]
    for s in held:
        s.sendall(GET + GET[:9])
        read_answers(s, 1)
    more = [server.dial() for _ in range(6)]
    for s in more:
        s.sendall(GET)
    server.signal(signal.SIGTERM)
    refused, until = False, time.time() + 15
    while time.time() < until:
        try:
            with socket.create_connection(('127.0.0.1', server.port), 5):
                time.sleep(0.05)
        except ConnectionRefusedError:
            refused = True
            break
        except OSError:
            pass
    check('newcomers are refused', refused)
    for s in held:
        s.sendall(GET[9:])
    for s in held + more:
        got, _ = read_answers(s)
        check('full, and answered', statuses(got) == [200] and
              got[0].fields.get('connection') == 'close', statuses(got))
        s.close()
    check('the end of a full server', server.wait() == (0, ''))


# What comes after the last answer of a stop does not reset the connection.
def check_stop_late():
    server = Server()
    with server.dial() as s, server.dial() as other:
        s.sendall(GET[:9])
        time.sleep(0.1)
        server.signal(signal.SIGTERM)
        got = [None]
        while got and 'connection' not in (got[0].fields if got[0] else ()):
            other.sendall(GET)
            got, _ = read_answers(other, 1)
        other.close()
        s.sendall(GET[9:])
        got, _ = read_answers(s, 1)
        try:
            for _ in range(3):
                s.sendall(GET)
                time.sleep(0.1)
            end = s.recv(1)
        except OSError as error:
            end = error
        check('the last answer of a stop', statuses(got) == [200] and
              got[0].fields.get('connection') == 'close' and end == b'', end)
    check('late', server.wait() == (0, ''))


# A new server gets the socket, and the old stops: no connection fails.
def check_hand_over():
    listener = socket.create_server(('127.0.0.1', 0), backlog=512)
    fd = listener.fileno()
    old = Server('-f', str(fd), fds=(fd,))
    errors, done, nr = [], [], 0

    def client():
        while not done:
            try:
                got = ask(old, LAST)
                if statuses(got) != [200]:
                    errors.append(statuses(got))
            except OSError as error:
                errors.append(error)

    clients = [threading.Thread(target=client) for _ in range(4)]
    for c in clients:
        c.start()
    for _ in range(2):
        time.sleep(0.2)
        new = Server('-f', str(fd), fds=(fd,))
        check('same port', new.port == old.port)
        old.stop('hand over')
        old = new
    done.append(1)
    for c in clients:
        c.join()
    check('a hand-over loses nothing', errors == [], errors[:5])
    listener.close()
    old.stop('last')


def check_grace():
    server = Server('-g', '1')
    with server.dial() as s:
        s.sendall(GET[:10])
        time.sleep(0.2)
        server.signal(signal.SIGTERM)
        status, errors = server.wait()
        check('the grace ends', status == 1 and 'cut' in errors, status,
              errors)
    server = Server()
    with server.dial() as s:
        s.sendall(GET[:10])
        time.sleep(0.2)
        server.signal(signal.SIGINT)
        time.sleep(0.2)
        server.signal(signal.SIGINT)
        check('a second signal', server.wait()[0] == -signal.SIGINT)


def check_log_and_metrics():
    log = folder + '/log'
    server = Server('-l', log)
    ask(server, GET + request('/small') + request('/none') +
        request('/empty', method='HEAD') + b'bad"\x01 line\r\n\r\n')
    ask(server, request('/large', method='HEAD'), heads=True)
    ask(server, request('/"'))
    time.sleep(0.1)
    m = metrics(server)
    check('metrics', [m['httpd_answers{status="%d"}' % s] for s in
                      (200, 400, 404, 414)] == ['4', '2', '1', '0'] and
          m['httpd_connections'] == '1' and
          m['httpd_connections_accepted'] == '4' and m['httpd_body_bytes'] ==
          str(13 + 4096 + 9 + 2 * 11), m)
    ask(server, LAST)
    server.stop('log')
    with open(log) as f:
        lines = [re.sub(r'\[.*?\]', '[]', line) for line in f]
    first = '127.0.0.1 - - [] "'
    wanted = [first + line + '\n' for line in [
        'GET /plaintext HTTP/1.1" 200 13', 'GET /small HTTP/1.1" 200 4096',
        'GET /none HTTP/1.1" 404 9', 'HEAD /empty HTTP/1.1" 200 0',
        '" 400 11', 'HEAD /large HTTP/1.1" 200 0', '" 400 11',
        'GET /metrics HTTP/1.1" 200 %d' % 0,
        'GET /plaintext HTTP/1.1" 200 13']]
    lines = [re.sub(r'(metrics.* 200) \d+', r'\1 0', x) for x in lines]
    check('log', lines == wanted, lines)


def refused(what, words, *options):
    p = subprocess.run([program, '-p', '0', '-r', root] + list(options),
                       capture_output=True, text=True, timeout=10)
    check(what, p.returncode in (1, 2) and words in p.stderr and
          p.stdout == '', p)


def check_options():
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = str(taken.getsockname()[1])
        refused('no port', '65536: Invalid argument', '-p', '65536')
        refused('port taken', port + ': Address already in use', '-p', port)
    refused('no root', '/none: No such file', '-r', root + '/none')
    refused('root is a file', 'Not a directory', '-r', root + '/small')
    refused('too many', 'limit of descriptors', '-c', '524288')
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 1 << 20:
        refused('two for each', 'limit of descriptors', '-c', str(hard // 2))
    refused('no address', 'Invalid argument', '-a', 'nowhere')
    refused('no log', 'No such file', '-l', folder + '/none/log')
    for options in [['-x', '1'], ['-p'], ['-p', 'x'], ['x'],
                    ['-c', '0'], ['-t', '-1'], ['-pp', '1']]:
        refused(options, 'usage: httpd', *options)


def main():
    files = make_files()
    server = Server()
    if len(sys.argv) > 3:               # only this
        only = globals()['check_' + sys.argv[3]]
        only(*[server][:only.__code__.co_argcount])
        server.stop('only')
        return failed != 0
    check_good(server)
    check_bad(server)
    check_files(server, files)
    check_escapes(server)
    check_expect(server)
    check_slow_reader(server)
    check_last(server)
    check_gone(server)
    time.sleep(0.3)
    check('all connections have ended',
          metrics(server)['httpd_connections'] == '1')
    left = os.listdir('/proc/%d/fd' % server.process.pid)
    check('no descriptor is left open', len(left) < 20, len(left))
    server.stop('main')
    check_log_and_metrics()
    check_limit()
    check_places()
    check_stop()
    check_stop_coming()
    check_stop_full()
    check_stop_late()
    check_hand_over()
    check_times()
    check_steady()
    check_grace()
    check_options()
    print('%d passed, %d failed' % (passed, failed))
    return failed != 0


sys.exit(main())
