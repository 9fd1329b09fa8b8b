package collectives

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestBuiltin(t *testing.T) {
	p := Default()
	for name, want := range map[string]string{
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)":      "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
		"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)":                            "ncclDevKernel_Generic_4",
		"ncclKernel_AllReduce_RING_LL_Sum_bf16":                                                "ncclKernel_AllReduce_RING_LL_Sum_bf16",
		"void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*)":                    "cross_device_reduce_1stage",
		"void aiter::cross_device_reduce_2stage_naive<__hip_bfloat16, 8>(aiter::RankData*)":    "cross_device_reduce_2stage_naive",
		"void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)":   "reduce_scatter_cross_device_store",
		"void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>>": "allreduce_prototype_twoshot",
		"aiter::local_device_load_rmsnorm":                                                     "",
		"Cijk_Alik_Bljk_HHS_BH_MT64x64x32":                                                     "",
		"void vllm::paged_attention_v2_kernel<>":                                               "",
		"":                                                                                     "",
	} {
		if got := p.Find(name); got != want || p.Match(name) != (want != "") {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// The guide has the patterns, in the form of a file.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/ranks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```text\n# RCCL\n")
	text, _, _ = strings.Cut(text, "```")
	p, err := Parse(strings.NewReader(text))
	if err != nil || len(p.all) != len(Builtin) {
		t.Fatalf("%+v, %v", p, err)
	}
	for i, want := range Builtin {
		if p.all[i].String() != want {
			t.Errorf("%s, want %s", p.all[i], want)
		}
	}
}

func TestParse(t *testing.T) {
	p, err := Parse(strings.NewReader("# ours\n\n  my_all_reduce_v\\d+  \n^gather$\n"))
	if err != nil || !p.Match("void my_all_reduce_v2(float*)") || !p.Match("gather") || p.Match("gathers") || p.Match("ncclDevKernel_Generic") {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{"", "# nothing\n", "(", strings.Repeat("a\n", mostPatterns+1), strings.Repeat("a", mostBytes+1)} {
		if p, err := Parse(strings.NewReader(text)); !errors.Is(err, ErrPatterns) {
			t.Errorf("%.20q: %+v, %v", text, p, err)
		}
	}
	if _, err := Open("/nonexistent"); err == nil {
		t.Error("a file that is not there was read")
	}
}

// FuzzParse: whatever a file has, a list of patterns can be used, or is refused.
func FuzzParse(f *testing.F) {
	f.Add("# c\nnccl.*\n", "ncclKernel")
	f.Add("(a|b", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := Parse(strings.NewReader(text))
		if (p == nil) != (err != nil) || p != nil && len(p.all) == 0 {
			t.Fatalf("%+v, %v", p, err)
		}
		if p != nil && p.Match(name) != (p.Find(name) != "") {
			t.Fatal(name)
		}
	})
}
