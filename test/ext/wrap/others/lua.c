/* SPDX-License-Identifier: MIT */
/*
 * lua: hundreds of threads each run a Lua of their own, whose count hook blocks
 * wherever the script is: in pcall(), in coroutines, in functions that C
 * functions call. So does a C function, which then raises an error. Each
 * thread gets the same result as without threads.
 */

/*
 * Lua keeps addresses of the C stack on the heap. There is a jmp_buf for each
 * pcall() and each resume, to which error() jumps. Such an address is valid
 * whenever its thread runs, as the slice is where it was (usched I1). All jumps
 * go up the stack of the running thread, between frames that are in its slice,
 * so they pass the checks of a fortified longjmp(), too. String functions build
 * their results in buffers on the C stack, which point to themselves. A
 * lua_State has no lock: it belongs to one thread. Lua has no state outside of
 * it.
 *
 * Built as C++, Lua throws C++ exceptions. While an exception is being handled,
 * Lua calls nothing, so the caveat of usched.h about catch does not concern the
 * hook.
 */
#include "others.h"
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#define THREADS	200
#define PERIOD	60			/* instructions between blocks */

/* The script sets the global variable "where" to one of these. */
enum { RECURSION, ERRORS, STRINGS, GSUB, SORT, COROUTINES, DEEP, WHERES };

/* For Lua 5.1 to 5.4. */
static const char script[] =
"local seed = ...\n"
"local state = seed\n"
"local out = {}\n"
"local function random(n)\n"
"	state = (state * 16807) % 2147483647\n"
"	return state % n\n"
"end\n"
"local function note(x)\n"
"	out[#out + 1] = type(x) == 'number' and string.format('%d', x) or\n"
"		tostring(x)\n"
"end\n"
"where = 0				-- recursion\n"
"local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end\n"
"note(fib(9 + random(4)))\n"
"where = 1				-- errors\n"
"local function risky(n)\n"
"	local t = {}\n"
"	for i = 1, n do\n"
"		t[i] = i * i\n"
"		if i == n then error('at ' .. n, 0) end\n"
"	end\n"
"	return t\n"
"end\n"
"for i = 1, 10 do\n"
"	local ok, why = pcall(risky, random(40))\n"
"	note(ok and #why or why)\n"
"end\n"
"local ok, why = pcall(function() error({ code = seed % 100 }) end)\n"
"note(why.code)\n"
"ok, why = pcall(function() return nil + 1 end)\n"
"note(ok)\n"
"for i = 1, 6 do			-- a C function waits, and raises an error\n"
"	ok, why = pcall(wait, i % 2 == 1)\n"
"	note(why)\n"
"end\n"
"ok, why = pcall(string.gsub, 'abc', '%a', function(c) wait(c == 'c') end)\n"
"note(why)\n"
"note(ok)\n"
"where = 2				-- strings\n"
"local s = ''\n"
"for i = 1, 60 do\n"
"	s = s .. string.char(97 + random(26))\n"
"	if i % 10 == 0 then s = s:upper() .. i end\n"
"end\n"
"note(s)\n"
"note(s:reverse():sub(3, -3) .. table.concat({ s, s }, '+'))\n"
"where = 3				-- C code with a buffer calls us\n"
"note((s:gsub('%a', function(c)\n"
"	local n = 0\n"
"	for i = 1, 1 + random(20) do n = n + i end\n"
"	return c .. string.format('%d', n)\n"
"end)))\n"
"where = 4				-- so does sort\n"
"local list = {}\n"
"for i = 1, 70 do list[i] = random(1000) * 100 + i end\n"
"table.sort(list, function(a, b) return a > b end)\n"
"for i = 1, 70, 7 do note(list[i]) end\n"
"where = 5				-- coroutines, within each other\n"
"local function numbers(from, to)\n"
"	return coroutine.wrap(function()\n"
"		for i = from, to do coroutine.yield(i) end\n"
"	end)\n"
"end\n"
"local function odd(it)\n"
"	return coroutine.wrap(function()\n"
"		for n in it do\n"
"			if n % 2 == 1 then coroutine.yield(n) end\n"
"		end\n"
"	end)\n"
"end\n"
"local sum = 0\n"
"for n in odd(odd(numbers(1, 40 + random(20)))) do sum = sum + n end\n"
"note(sum)\n"
"local co = coroutine.create(function(a)\n"
"	local b = coroutine.yield(a + 1)\n"
"	risky(b)\n"
"end)\n"
"note(select(2, coroutine.resume(co, seed % 10)))\n"
"note(select(2, coroutine.resume(co, 20)))\n"
"note(coroutine.status(co))\n"
"co = coroutine.wrap(function()		-- in a coroutine, too\n"
"	for i = 1, 4 do\n"
"		local ok, why = pcall(wait, i % 2 == 1)\n"
"		coroutine.yield(why)\n"
"	end\n"
"	wait(true)\n"
"end)\n"
"for i = 1, 4 do note(co()) end\n"
"note(select(2, pcall(co)))\n"
"where = 6				-- C frames, one in the other\n"
"local function deep(n)\n"
"	if n == 0 then risky(30) end\n"
"	local ok, why = pcall(deep, n - 1)\n"
"	for i = 1, 5 do sum = sum + i end\n"
"	error(why .. n % 10, 0)\n"
"end\n"
"note(select(2, pcall(deep, 20 + random(20))))\n"
"note(sum)\n"
"return table.concat(out, ' ')\n";

struct job {
	struct other j_other;
	char        *j_result;
	char        *j_plain;
	long         j_at[WHERES];	/* blocks there */
	long         j_in_coroutine;	/* blocks in any coroutine */
};

static struct job jobs[THREADS];

static void hook(lua_State *lua, lua_Debug *event)
{
	struct job *j = (struct job *)others_self();
	lua_Integer where;

	if (j == NULL)
		return;
	lua_getglobal(lua, "where");
	where = lua_tointeger(lua, -1);
	j->j_in_coroutine += !lua_pushthread(lua);
	lua_pop(lua, 2);
	CHECK(where >= 0 && where < WHERES);
	j->j_at[where]++;
	others_block();
}

/* wait(raise): by longjmp() out of a C function that has waited. */
static int waits(lua_State *lua)
{
	others_block();
	if (lua_toboolean(lua, 1))
		return luaL_error(lua, "waited");
	lua_pushinteger(lua, 7);
	return 1;
}

/* Lua calls this if no pcall() catches an error. */
static int panic(lua_State *lua)
{
	fprintf(stderr, "%s\n", lua_tostring(lua, -1));
	CHECK(!"panic");
	return 0;
}

static void work(struct other *o)
{
	struct job *j = (struct job *)o;
	lua_State *lua = luaL_newstate();
	int rc;

	CHECK(lua != NULL);
	lua_atpanic(lua, panic);
	luaL_openlibs(lua);
	lua_pushcfunction(lua, waits);
	lua_setglobal(lua, "wait");
	lua_sethook(lua, hook, LUA_MASKCOUNT, PERIOD);
	rc = luaL_loadstring(lua, script);
	if (rc == 0) {
		lua_pushinteger(lua, (lua_Integer)(o->o_random % 1000000 + 1));
		rc = lua_pcall(lua, 1, 1, 0);
	}
	if (rc != 0)
		fprintf(stderr, "%s\n", lua_tostring(lua, -1));
	CHECK_IS(rc, 0);
	j->j_result = strdup(lua_tostring(lua, -1));
	CHECK(j->j_result != NULL);
	lua_close(lua);
}

static void plain(struct job *j)
{
	j->j_other.o_f      = work;
	j->j_other.o_random = check_hash(check_seed, (unsigned)(j - jobs));
	work(&j->j_other);
	j->j_plain = j->j_result;
}

static void compare(void)
{
	struct job *j;
	int i;

	for (j = jobs; j < jobs + THREADS; j++) {
		CHECK_STR(j->j_result, j->j_plain);
		free(j->j_result);
		for (i = 0; i < WHERES; i++)
			CHECK_THAT(j->j_at[i], >, 0);
		CHECK_THAT(j->j_in_coroutine, >, 0);
		memset(j->j_at, 0, sizeof j->j_at);
		j->j_in_coroutine = 0;
	}
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	for (i = 0; i < THREADS; i++)
		plain(&jobs[i]);
	CHECK(strcmp(jobs[0].j_plain, jobs[1].j_plain) != 0);
	for (i = 0; i < COUNT(ways); i++) {
		if (others_run(&ways[i], jobs, THREADS, sizeof jobs[0], WHERES))
			compare();
	}
	for (i = 0; i < THREADS; i++)
		free(jobs[i].j_plain);
	return 0;
}
