# SPDX-License-Identifier: MIT
# red.awk: prints the functions of an x86-64 assembly file whose locals lie below
# the stack pointer, and the first instruction that says so: by rsp, or by rbp
# below all that was pushed and subtracted.

function number(text) {
	sub(/^.*\$/, "", text)
	sub(/,.*/, "", text)
	return text + 0
}

function report(line) {
	if (said != name)
		print name ":" line
	said = name
}

# Locals that rbp reaches, once the frame is known.
function close_frame() {
	if (framed && low < -room)
		report(lowest)
	framed = 0
}

/^[A-Za-z_][A-Za-z_0-9.]*:/ {
	if ($1 !~ /^\./) {
		close_frame()
		name = $1
		sub(/:.*/, "", name)
		room = low = framed = 0
	}
	next
}

/^[ \t]*\./	{ next }
/mov[q]?[ \t]+%rsp, %rbp/	{ framed = 1; room = 0 }
framed && /push[q]?[ \t]/	{ room += 8 }
framed && /sub[q]?[ \t]+\$[0-9]+, %rsp/	{ room += number($0) }
framed && /add[q]?[ \t]+\$-[0-9]+, %rsp/	{ room -= number($0) }
framed && /and[q]?[ \t]+\$-[0-9]+, %rsp/	{ room += 0 }
# The stack pointer itself may be moved so, and pages be touched.
/lea[q]?[ \t]+-[0-9]+\(%rsp\), %rsp/	{ if (framed) room += 1e6; next }
/[ \t,]-[0-9]+\(%rsp[,)]/ {
	at = $0
	sub(/\(%rsp.*/, "", at)
	sub(/.*[ \t,]/, "", at)
	if (at + 0 >= -128)
		report($0)
}
framed && /[ \t,]-[0-9]+\(%rbp[,)]/ {
	at = $0
	sub(/\(%rbp.*/, "", at)
	sub(/.*[ \t,]/, "", at)
	if (at + 0 < low && $0 !~ /lea[q]?.*%rsp$/) {
		low = at + 0
		lowest = $0
	}
}
END	{ close_frame() }
