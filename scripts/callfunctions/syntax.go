package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// source is the headers of one library.
type source struct {
	folders []string // of a release: the library's, and those that its headers include
	wanted  *regexp.Regexp
	headers []string // those that a release does not have are left out
	table   string   // header with the types t_NAME of the dispatch table's entries
}

var (
	hip = source{
		folders: []string{"hip"}, wanted: regexp.MustCompile(`^(__hip|hip[A-Z])\w*$`), table: "hip/amd_detail/hip_api_trace.hpp",
		headers: []string{
			"hip/hip_runtime_api.h", "hip/hip_deprecated.h", "hip/amd_detail/amd_hip_runtime.h",
			"hip/hip_ext.h", "hip/hip_gl_interop.h", "hip/amd_detail/hip_api_trace.hpp",
		},
	}
	hsa = source{folders: []string{"hsa"}, wanted: regexp.MustCompile(`^hsa_\w+$`), headers: []string{
		"hsa/hsa.h", "hsa/hsa_ext_amd.h", "hsa/hsa_ext_image.h", "hsa/hsa_ext_finalize.h",
		"hsa/hsa_ven_amd_loader.h", "hsa/hsa_ven_amd_aqlprofile.h", "hsa/hsa_ven_amd_pc_sampling.h",
	}}
	// Without its second names, pncclNAME.
	rccl = source{folders: []string{"rccl", "hip"}, wanted: regexp.MustCompile(`^nccl[A-Z]\w*$`), headers: []string{"rccl/rccl.h"}}
)

// headers is a program that includes the headers, and its syntax.
type headers struct {
	wanted  *regexp.Regexp // functions
	folder  string
	program string
	top     node
}

// node is a node of clang's syntax tree.
type node struct {
	ID      string `json:"id"`
	Kind    string
	Name    string
	Mangled string `json:"mangledName"`
	Inline  bool
	Storage string `json:"storageClass"`
	Of      *node  `json:"ownedTagDecl"`
	Value   any
	Type    struct {
		Qual     string `json:"qualType"`
		Desugard string `json:"desugaredQualType"`
	}
	Variadic bool
	Inner    []node
}

// tableEntry is the type of an entry of the dispatch table.
var tableEntry = regexp.MustCompile(`(?s)typedef\s+([^;()]+?)\s*\(\*t_(\w+)\)\s*\(([^;]*)\);`)

func newHeaders(include string, s source) (*headers, error) {
	folder, err := os.MkdirTemp("", "callfunctions")
	if err != nil {
		return nil, err
	}
	// Only the library's own headers are the release's, and others that it has; the C library's are this machine's.
	for _, name := range s.folders {
		if _, err := os.Stat(filepath.Join(include, name)); err != nil {
			continue
		}
		if err := os.Symlink(filepath.Join(include, name), filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	h := &headers{wanted: s.wanted, folder: folder}
	for _, header := range s.headers {
		if _, err := os.Stat(filepath.Join(folder, header)); err == nil {
			h.program += fmt.Sprintf("#include <%s>\n", header)
		}
	}
	h.program += declarations(filepath.Join(folder, s.table))
	return h, h.parse(h.program, "", &h.top)
}

func (h *headers) close() { os.RemoveAll(h.folder) }

// declarations declares a function for each type of the dispatch table, because a type has no names of parameters.
func declarations(table string) string {
	text, err := os.ReadFile(table)
	if err != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("namespace rtl_table {\n")
	for _, m := range tableEntry.FindAllStringSubmatch(string(text), -1) {
		fmt.Fprintf(&b, "%s t_%s(%s);\n", m[1], m[2], m[3])
	}
	b.WriteString("}\n")
	return b.String()
}

// parse reads the program's syntax, or that of the one declaration with a name.
func (h *headers) parse(program, name string, top *node) error {
	file := filepath.Join(h.folder, "program.cpp")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		return err
	}
	var tree, messages bytes.Buffer
	cmd := exec.Command(cmp.Or(os.Getenv("CLANG"), "clang++-15"), "-std=c++17", "-fsyntax-only", "-w",
		"-D__HIP_PLATFORM_AMD__", "-I", h.folder, "-Xclang", "-ast-dump=json")
	if name != "" {
		cmd.Args = append(cmd.Args, "-Xclang", "-ast-dump-filter="+name)
	}
	cmd.Args = append(cmd.Args, file)
	cmd.Stdout, cmd.Stderr = &tree, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("clang: %w\n%s", err, messages.Bytes())
	}
	return json.Unmarshal(tree.Bytes(), top)
}
