module pull

go 1.23
