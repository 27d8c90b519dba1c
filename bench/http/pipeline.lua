-- SPDX-License-Identifier: MIT
-- pipeline.lua: wrk sends as many requests at once as its argument says.

init = function(args)
	local one, all = wrk.format(), {}
	for i = 1, tonumber(args[1]) do
		all[i] = one
	end
	requests = table.concat(all)
end

request = function()
	return requests
end
