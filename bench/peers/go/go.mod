module usched/peers/go

go 1.19
