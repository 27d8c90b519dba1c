module usched/peers/gofork

go 1.19
