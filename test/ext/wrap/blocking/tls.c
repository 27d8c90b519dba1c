/* SPDX-License-Identifier: MIT */
/*
 * OpenSSL, unmodified, on blocking sockets: servers and clients in threads of
 * the same processors. A server answers only when all requests have come, so a
 * call that stopped its processor would stop all.
 */
#include "either.h"
#include "usync.h"
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#define BODY	100000

static SSL_CTX *theirs, *ours;
static struct ubarrier all;
static struct sockaddr_in at;
static int listener, nr;
static long done;
static char body[BODY];

/* Makes a key, and a certificate, by which it vouches for itself. */
static X509 *certify(SSL_CTX *context)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	CHECK(key != NULL && x != NULL);
	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN",
		MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	CHECK_THAT(X509_sign(x, key, EVP_sha256()), >, 0);
	CHECK_IS(SSL_CTX_use_certificate(context, x), 1);
	CHECK_IS(SSL_CTX_use_PrivateKey(context, key), 1);
	EVP_PKEY_free(key);
	return x;
}

static void check_ssl(const char *what, int rc)
{
	if (rc > 0)
		return;
	fprintf(stderr, "%s: %d\n", what, rc);
	ERR_print_errors_fp(stderr);
	CHECK_THAT(rc, >, 0);
}

static void server(void *fd)
{
	SSL *tls = SSL_new(theirs);
	char buf[16];
	int at = 0, n;

	SSL_set_fd(tls, (int)(long)fd);
	check_ssl("accept", SSL_accept(tls));
	check_ssl("request", SSL_read(tls, buf, sizeof buf));
	CHECK_THAT(ubarrier_wait(&all, INT64_MAX), >=, 0);
	check_ssl("answer", SSL_write(tls, body, BODY));
	CHECK_THAT(SSL_shutdown(tls), >=, 0);
	while ((n = SSL_read(tls, buf, sizeof buf)) > 0)
		at += n;
	CHECK_IS(at, 0);
	SSL_free(tls);
	close((int)(long)fd);
	add(&done, 1);
}

static void acceptor(void *arg)
{
	int i, fd;

	for (i = 0; i < nr; i++) {
		CHECK_THAT((fd = accept(listener, NULL, NULL)), >=, 0);
		make_pinned(i, server, (void *)(long)fd);
	}
}

static void client(void *arg)
{
	SSL *tls = SSL_new(ours);
	int fd = socket(AF_INET, SOCK_STREAM, 0), got = 0, n;
	char buf[5000];

	CHECK(fd >= 0 && connect(fd, (void *)&at, sizeof at) == 0);
	SSL_set_fd(tls, fd);
	check_ssl("connect", SSL_connect(tls));
	check_ssl("ask", SSL_write(tls, "request", 7));
	while ((n = SSL_read(tls, buf, sizeof buf)) > 0) {
		CHECK(memcmp(buf, body + got, n) == 0);
		got += n;
	}
	CHECK(got == BODY && SSL_get_error(tls, n) == SSL_ERROR_ZERO_RETURN);
	CHECK_IS(SSL_get_verify_result(tls), X509_V_OK);
	SSL_shutdown(tls);
	SSL_free(tls);
	close(fd);
	add(&done, 1);
}

static void listen_here(void)
{
	socklen_t len = sizeof at;

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_THAT((listener = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	CHECK_IS(bind(listener, (void *)&at, sizeof at), 0);
	CHECK_IS(listen(listener, 1024), 0);
	CHECK_IS(getsockname(listener, (void *)&at, &len), 0);
}

int main(int argc, char **argv)
{
	X509 *x;
	int i;

	check_start(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	nr = getenv("NR") != NULL ? atoi(getenv("NR")) : 100;
	for (i = 0; i < BODY; i++)
		body[i] = (char)(i * 31 + i / 999);
	CHECK((theirs = SSL_CTX_new(TLS_server_method())) != NULL);
	CHECK((ours = SSL_CTX_new(TLS_client_method())) != NULL);
	x = certify(theirs);
	X509_STORE_add_cert(SSL_CTX_get_cert_store(ours), x);
	SSL_CTX_set_verify(ours, SSL_VERIFY_PEER, NULL);
	listen_here();
	all = (struct ubarrier)UBARRIER(nr);
	begin(2, 0);
	make_pinned(0, acceptor, NULL);
	for (i = 0; i < nr; i++)
		make_pinned(i, client, NULL);
	start_and_finish();
	CHECK_IS(get(&done), 2 * nr);
	SSL_CTX_free(ours);
	SSL_CTX_free(theirs);
	X509_free(x);
	return 0;
}
