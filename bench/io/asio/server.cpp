/* SPDX-License-Identifier: MIT */
/* server.cpp: the server as handlers of Boost.Asio, a peer. */

/*
 * WHAT IT IS ASKED: see io.h. A connection is an object that its handlers share,
 * and has one operation at a time, so it needs no strand. It keeps its buffer: that
 * of mode line is a streambuf, which grows as it is read, up to a line.
 *
 * P native threads run one io_context, which is told P. A thread that computes is a
 * handler, which posts itself again.
 */
#include "../io.h"

#include <boost/asio.hpp>
#include <memory>
#include <thread>

namespace asio = boost::asio;
using boost::system::error_code;

static io_ask ask;

template <class socket> class conn : public std::enable_shared_from_this<conn<socket>> {
public:
	explicit conn(socket &&s) : c_socket(std::move(s)) {}

	void echo()
	{
		auto self = this->shared_from_this();

		c_socket.async_read_some(asio::buffer(c_bytes),
			[self](const error_code &err, size_t n) {
				if (!err)
					self->answer(n);
			});
	}

	void once()
	{
		auto self = this->shared_from_this();

		asio::async_read(c_socket, asio::buffer(c_bytes, IO_MESSAGE),
			[self](const error_code &err, size_t n) {
				if (!err)
					self->answer(n);
			});
	}

	void line()
	{
		auto self = this->shared_from_this();

		asio::async_read_until(c_socket, c_lines, '\n',
			[self](const error_code &err, size_t n) {
				if (!err)
					self->say_ok(n);
			});
	}

private:
	/* After mode once the object goes, and so the connection. */
	void answer(size_t n)
	{
		auto self = this->shared_from_this();

		asio::async_write(c_socket, asio::buffer(c_bytes, n),
			[self](const error_code &err, size_t) {
				if (!err && !ask.a_once)
					self->echo();
			});
	}

	void say_ok(size_t n)
	{
		auto self = this->shared_from_this();

		asio::async_write(c_socket, asio::buffer(IO_OK, IO_OK_SIZE),
			[self, n](const error_code &err, size_t) {
				if (!err)
					self->say_line(n);
			});
	}

	void say_line(size_t n)
	{
		auto self = this->shared_from_this();

		asio::async_write(c_socket, asio::buffer(c_lines.data(), n),
			[self, n](const error_code &err, size_t) {
				self->c_lines.consume(n);
				if (!err)
					self->line();
			});
	}

	socket          c_socket;
	char            c_bytes[IO_ROOM];
	asio::streambuf c_lines{IO_LINE};
};

template <class socket> static void begin(socket &&s)
{
	auto c = std::make_shared<conn<socket>>(std::move(s));

	if (ask.a_once)
		c->once();
	else if (ask.a_line)
		c->line();
	else
		c->echo();
}

static void no_delay(asio::ip::tcp::socket &s)
{
	s.set_option(asio::ip::tcp::no_delay(true));
}

static void no_delay(asio::local::stream_protocol::socket &)
{
}

template <class acceptor> static void accept(acceptor &a)
{
	a.async_accept([&a](const error_code &err,
			    typename acceptor::protocol_type::socket s) {
		if (err) {
			fprintf(stderr, "accept: %s\n", err.message().c_str());
			exit(IO_FAILED);
		}
		no_delay(s);
		begin(std::move(s));
		accept(a);
	});
}

static void compute(asio::io_context &io)
{
	asio::post(io, [&io] {
		io_compute();
		compute(io);
	});
}

/* Serves clients of a socket that listens. */
template <class protocol> static void serve(const protocol &p, int listener)
{
	asio::io_context io(ask.a_p);
	typename protocol::acceptor a(io, p, listener);

	accept(a);
	for (int i = 0; i < ask.a_k; i++)
		compute(io);
	for (int i = 1; i < ask.a_p; i++)
		std::thread([&io] { io.run(); }).detach();
	io_ready(listener);
	io.run();
}

int main(int argc, char **argv)
{
	io_server(&ask, argc, argv);

	int listener = io_listen(&ask);

	if (ask.a_at.a_any.sa_family == AF_UNIX)
		serve(asio::local::stream_protocol(), listener);
	else
		serve(asio::ip::tcp::v4(), listener);
	return 0;
}
