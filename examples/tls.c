/* SPDX-License-Identifier: MIT */
/* tls.c: echo over TLS with OpenSSL: a wait where it wants to read or write. */
/* LIBS: -lssl -lcrypto */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include "loop.h"

/* Waits for what TLS wants after a result. Returns whether to try again. */
static int again(SSL *tls, int result)
{
	int error = SSL_get_error(tls, result);

	return (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		&& u_wait_fd(SSL_get_fd(tls), error == SSL_ERROR_WANT_READ ?
			     UREAD : UWRITE, uafter(5 * UTIME_S)) == 0;
}

static int tls_read(SSL *tls, void *buf, int size)
{
	int n;

	do
		ERR_clear_error();	/* all threads here have one queue */
	while ((n = SSL_read(tls, buf, size)) <= 0 && again(tls, n));
	return n;
}

static int tls_write(SSL *tls, const void *buf, int size)
{
	int n;

	do
		ERR_clear_error();
	while ((n = SSL_write(tls, buf, size)) <= 0 && again(tls, n));
	return n;
}

static void echo(int fd, void *context)
{
	SSL *tls = SSL_new(context);
	char buf[1024];
	int n;

	SSL_set_fd(tls, fd);		/* it is non-blocking */
	SSL_set_accept_state(tls);	/* reads and writes shake hands */
	while ((n = tls_read(tls, buf, sizeof buf)) > 0)
		tls_write(tls, buf, n);
	SSL_shutdown(tls);
	SSL_free(tls);
}

/* Makes a key, and a certificate, by which it vouches for itself. */
static X509 *certify(SSL_CTX *context)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN",
		MBSTRING_ASC, (const unsigned char *)"echo", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_sign(x, key, EVP_sha256());
	SSL_CTX_use_certificate(context, x);
	SSL_CTX_use_PrivateKey(context, key);
	EVP_PKEY_free(key);
	return x;
}

static void talk(void)
{
	static struct userve server = { .sv_f = echo };
	SSL_CTX *ours = SSL_CTX_new(TLS_client_method());
	X509 *x = certify(server.sv_arg = SSL_CTX_new(TLS_server_method()));
	char reply[16] = "nothing";
	SSL *tls;

	X509_STORE_add_cert(SSL_CTX_get_cert_store(ours), x);
	SSL_CTX_set_verify(ours, SSL_VERIFY_PEER, NULL);
	tls = SSL_new(ours);
	SSL_set_fd(tls, dial(serve(&server)));
	SSL_set_connect_state(tls);
	tls_write(tls, "hello", 6);
	tls_read(tls, reply, sizeof reply);
	printf("%s by %s, checked: %s\n", SSL_get_version(tls), reply,
	       SSL_get_verify_result(tls) == X509_V_OK ? "yes" : "no");
	SSL_shutdown(tls);
	u_close(SSL_get_fd(tls));
	SSL_free(tls);
	SSL_CTX_free(ours);
	X509_free(x);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);	/* OpenSSL writes by write() */
	return run(talk);
}
