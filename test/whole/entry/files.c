/* SPDX-License-Identifier: MIT */
/* files.c: gives files to an entry point, in place of libFuzzer. */
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

int main(int argc, char **argv)
{
	static unsigned char bytes[1 << 16];
	FILE *file;
	size_t n;
	int i;

	for (i = 1; i < argc; i++) {
		file = fopen(argv[i], "rb");
		if (file == NULL) {
			perror(argv[i]);
			return 1;
		}
		n = fread(bytes, 1, sizeof bytes, file);
		fclose(file);
		LLVMFuzzerTestOneInput(bytes, n);
	}
	printf("%d files\n", argc - 1);
	return argc == 1;
}
