/* SPDX-License-Identifier: MIT */
/*
 * libmosquitto, unmodified, with mosquitto_loop_forever(): each client connects,
 * subscribes, and gets a message. Its loop returns when its time is over.
 */
#include "server.h"
#include <mosquitto.h>

enum { CONNECT = 0x10, SUBSCRIBE = 0x82 };

static void serve(int fd, void *arg)
{
	unsigned char m[256];

	while (take(fd, m, 2) && m[1] < 128 && take(fd, m + 2, m[1])) {
		unsigned char taken[] = { 0x90, 3, m[2], m[3], 0 };

		if (m[0] == CONNECT) {
			meet();
			give(fd, "\x20\x02\0\0", 4);
		} else if (m[0] == SUBSCRIBE) {
			give(fd, taken, sizeof taken);
			give(fd, "\x30\x04\0\1ax", 6);
		}
	}
	(void)arg;
}

static void connected(struct mosquitto *m, void *got, int rc)
{
	CHECK_IS(rc, 0);
	CHECK_IS(mosquitto_subscribe(m, NULL, "a", 0), MOSQ_ERR_SUCCESS);
	(void)got;
}

static void came(struct mosquitto *m, void *got,
		 const struct mosquitto_message *letter)
{
	CHECK(letter->payloadlen == 1 && *(char *)letter->payload == 'x');
	add(got, 1);
	CHECK_IS(mosquitto_disconnect(m), MOSQ_ERR_SUCCESS);
}

static struct mosquitto *connect_to(int number, void *got)
{
	struct mosquitto *m;
	char name[40];

	snprintf(name, sizeof name, "client%d", number);
	m = mosquitto_new(name, true, got);
	CHECK(m != NULL);
	mosquitto_connect_callback_set(m, connected);
	mosquitto_message_callback_set(m, came);
	CHECK_IS(mosquitto_connect(m, "127.0.0.1", port, 60), MOSQ_ERR_SUCCESS);
	return m;
}

static void client(int number)
{
	long *got = calloc(1, sizeof *got);
	struct mosquitto *m = connect_to(number, got);

	CHECK_IS(mosquitto_loop_forever(m, -1, 1), MOSQ_ERR_SUCCESS);
	CHECK_IS(*got, 1);
	mosquitto_destroy(m);
	free(got);
}

static void impatient(void)
{
	struct mosquitto *m = connect_to(-1, NULL);

	CHECK_IS(mosquitto_loop(m, 50, 1), MOSQ_ERR_SUCCESS);
	mosquitto_destroy(m);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	CHECK_IS(mosquitto_lib_init(), MOSQ_ERR_SUCCESS);
	run_all();
	return 0;
}
