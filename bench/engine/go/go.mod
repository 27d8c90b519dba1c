module usched/bench/engine

go 1.23
