module github.com/rtl-attach/rtl-attach

go 1.26
