/* SPDX-License-Identifier: MIT */
/* get.c: libcurl as it is: fetches all URLs at the same time. */
#include <stdio.h>
#include <curl/curl.h>
#include <usched/all.h>
static void get(void *url)
{
	CURL *easy = curl_easy_init();
	curl_easy_setopt(easy, CURLOPT_URL, url);
	if (curl_easy_perform(easy) != CURLE_OK)
		fprintf(stderr, "cannot fetch %s\n", (char *)url);
	curl_easy_cleanup(easy);
}
static int run(void *urls)
{
	int rc = 0;

	for (char **url = urls; *url != NULL && rc == 0; url++)
		rc = usched_go(get, *url);
	return rc;
}
int main(int argc, char **argv) { return usched_main(run, argv + (argc > 0)); }
