// The Python face: stoker.kernels._native.
//
// Arrays arrive as addresses, because an exchange through DLPack costs more than most of these ops
// (2.4 us per array against 0.08). kernels/cpu.py is the only caller: it has checked types, shapes
// and contiguity, and keeps the arrays alive. What only their contents can tell is checked here.
// The GIL is released in every call that computes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/sample.h"
#include "base/team.h"
#include "base/weight.h"
#include "layout.h"
#include "plan/bind.h"
#include "plan/plan.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker {
namespace {

using Address = uintptr_t;

template <class T> const T* in(Address address) { return reinterpret_cast<const T*>(address); }
template <class T> T* out(Address address) { return reinterpret_cast<T*>(address); }

bool has_avx2() {
#if defined(STOKER_HAS_AVX2)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

bool has_vnni() {
#if defined(STOKER_HAS_AVX2)
  return has_avx2() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(STOKER_HAS_AVX2)
  return has_vnni() && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// Instruction sets that this CPU and build offer, fastest first.
std::vector<std::string> isas() {
  std::vector<std::string> names;
  if (has_avx512()) names.push_back("avx512");
  if (has_vnni()) names.push_back("vnni");
  if (has_avx2()) names.push_back("avx2");
  names.push_back("portable");
  return names;
}

const KernelTable& table_of(const std::string& isa) {
  if (isa == "portable") return portable::table;
#if defined(STOKER_HAS_AVX2)
  if (isa == "avx2" && has_avx2()) return avx2::table;
  if (isa == "vnni" && has_vnni()) return vnni::table;
  if (isa == "avx512" && has_avx512()) return avx512::table;
#endif
  std::string offered;
  for (const std::string& name : isas()) offered += (offered.empty() ? "" : ", ") + name;
  throw std::invalid_argument("isa is " + isa + ", but this CPU and build offer only " + offered);
}

class Kernels {
 public:
  Kernels(int threads, const std::string& isa, const std::vector<int>& cpus)
      : isa_(isa), table_(table_of(isa)), team_(threads, cpus), sampler_(threads) {}

  const std::string& isa() const { return isa_; }
  int threads() const { return team_.threads(); }

  Plan* plan() { return new Plan(team_, table_); }

  PackedWeight* pack_float(Address data, int64_t N, int64_t K, Format format) {
    auto weight = new PackedWeight(arena_, {nullptr, N, K, format, false, false, GROUP});
    std::lock_guard lock(team_.busy);
    stoker::pack_float(team_, *weight, in<void>(data));
    return weight;
  }

  PackedWeight* pack_int(Address codes, Address scale, Address minimum, int64_t N, int64_t K,
                         Format format, bool wide_scales, int group) {
    auto weight =
        new PackedWeight(arena_, {nullptr, N, K, format, wide_scales, minimum != 0, group});
    std::lock_guard lock(team_.busy);
    stoker::pack_int(team_, *weight, in<void>(codes), in<void>(scale), in<void>(minimum));
    return weight;
  }

  // Memory for a weight that was packed before, to be read into it.
  PackedWeight* unfilled(int64_t N, int64_t K, Format format, bool wide_scales, bool has_minimum,
                         int group) {
    return new PackedWeight(arena_, {nullptr, N, K, format, wide_scales, has_minimum, group});
  }

  void embed(Address ids, int64_t T, const PackedWeight& table, float scale, Address result) {
    check_ids("a token id", in<int32_t>(ids), T, table.view().N);
    run(table_.embed, Embed{in<int32_t>(ids), T, table.view(), scale, out<float>(result)});
  }

  void linear(Address x, int64_t M, const PackedWeight& weight, Address bias, Address result) {
    run(table_.linear,
        Linear{in<float>(x), M, weight.view(), in<float>(bias), out<float>(result)});
  }

  void rms_norm(Address x, Address weight, int64_t M, int64_t K, float eps, Address result) {
    run(table_.rms_norm, RmsNorm{in<float>(x), in<float>(weight), M, K, eps, out<float>(result)});
  }

  void glu(Address gate, Address up, int64_t n, bool gelu, Address result) {
    run(table_.glu, Glu{in<float>(gate), in<float>(up), n, gelu, out<float>(result)});
  }

  void add(Address x, Address y, int64_t n, Address result) {
    run(table_.add, Add{in<float>(x), in<float>(y), n, out<float>(result)});
  }

  void rows(Address x, int64_t M, int64_t K, Address index, int64_t S, Address result) {
    check_ids("a row number", in<int32_t>(index), S, M);
    run(table_.take_rows, TakeRows{in<float>(x), in<int32_t>(index), S, K, out<float>(result)});
  }

  void rope_and_store(Address q, Address k, Address v, Address cos_sin, int64_t max_positions,
                      const RowMap& rows, const KV& kv, int64_t heads, Address result) {
    check_rows(rows, kv, max_positions, 0, true);
    run(table_.rope_and_store, Rope{in<float>(q), in<float>(k), in<float>(v), in<float>(cos_sin),
                                    rows, kv, heads, nullptr, nullptr, 0.0f, 0.0f,
                                    out<float>(result)});
  }

  void attention(Address q, const RowMap& rows, const KV& kv, int64_t heads, float scale,
                 int64_t window, Address result) {
    check_rows(rows, kv, rows.max_pages * PAGE, window, false);
    run(table_.attention,
        Attention{in<float>(q), rows, kv, heads, scale, window, out<float>(result)});
  }

  // draws: a list of S tuples, see kernels.ops.Draw. Reads Python objects, so it takes the GIL and
  // gives it up itself.
  std::vector<int32_t> sample(Address logits, int64_t S, int64_t V, nb::list draws) {
    std::vector<Draw> rows;
    for (nb::handle draw : draws) {
      nb::tuple t = nb::cast<nb::tuple>(draw);
      rows.push_back({nb::cast<double>(t[0]), nb::cast<double>(t[1]), nb::cast<double>(t[2]),
                      nb::cast<int64_t>(t[3]), PyLong_AsUnsignedLongLongMask(t[4].ptr()),
                      nb::cast<uint32_t>(t[5]), nb::cast<uint64_t>(t[6])});
    }
    if (int64_t(rows.size()) != S) throw std::invalid_argument("draws must have a row per logits");
    std::vector<int32_t> result(rows.size());
    nb::gil_scoped_release released;
    std::lock_guard lock(team_.busy);
    sampler_.run(team_, Sample{in<float>(logits), S, V, rows.data(), result.data(), table_});
    return result;
  }

  void logprobs(Address logits, int64_t S, int64_t V, Address tokens, int64_t k, Address picked,
                Address top_ids, Address top) {
    check_ids("a token id", in<int32_t>(tokens), S, V);
    std::lock_guard lock(team_.busy);
    sampler_.run(team_, Logprobs{in<float>(logits), S, V, in<int32_t>(tokens), k,
                                 out<float>(picked), out<int32_t>(top_ids), out<float>(top),
                                 table_});
  }

 private:
  template <class Args> void run(void (*op)(Team&, const Args&), const Args& args) {
    std::lock_guard lock(team_.busy);
    op(team_, args);
  }

  std::string isa_;
  const KernelTable& table_;
  WeightArena arena_;
  Team team_;
  Sampler sampler_;
};

}  // namespace
}  // namespace stoker

NB_MODULE(_native, m) {
  using namespace stoker;
  using NoGil = nb::call_guard<nb::gil_scoped_release>;

  nb::enum_<Format>(m, "Format")
      .value("f32", Format::f32).value("f16", Format::f16).value("bf16", Format::bf16)
      .value("int8", Format::int8).value("int4", Format::int4);
  nb::enum_<Number>(m, "Number")
      .value("f32", Number::f32).value("f16", Number::f16).value("bf16", Number::bf16);

  nb::class_<PackedWeight>(m, "PackedWeight")
      .def_prop_ro("shape", [](const PackedWeight& w) {
        return std::pair(w.view().N, w.view().K);
      })
      .def_prop_ro("code", [](const PackedWeight& w) { return code_of(w.view()); })
      .def_prop_ro("layout", [](const PackedWeight& w) {
        const WeightView& v = w.view();
        return std::tuple(v.N, v.K, v.format, v.wide_scales, v.has_minimum, v.group);
      })
      .def_prop_ro("address", [](PackedWeight& w) { return Address(w.data()); })
      .def_prop_ro("nbytes", &PackedWeight::nbytes);

  nb::class_<RowMap>(m, "RowMap").def("__init__", [](RowMap* self, Address positions,
      Address row_seq, Address page_table, int64_t T, int64_t B, int64_t max_pages) {
    new (self) RowMap{in<int32_t>(positions), in<int32_t>(row_seq), in<int32_t>(page_table), T, B,
                      max_pages};
  });
  nb::class_<KV>(m, "KV").def("__init__", [](KV* self, Address k, Address v, int64_t k_stride,
      int64_t v_stride, int64_t num_pages, int64_t kv_heads, int64_t head_dim, Number number) {
    new (self) KV{out<uint8_t>(k), out<uint8_t>(v), k_stride, v_stride, num_pages, kv_heads,
                  head_dim, number};
  });

  bind_plan(m);
  nb::class_<Kernels>(m, "Kernels")
      .def(nb::init<int, const std::string&, const std::vector<int>&>(), "threads"_a, "isa"_a,
           "cpus"_a)
      .def_prop_ro("isa", &Kernels::isa)
      .def_prop_ro("threads", &Kernels::threads)
      .def("pack_float", &Kernels::pack_float, NoGil())
      .def("pack_int", &Kernels::pack_int, NoGil())
      .def("unfilled", &Kernels::unfilled)
      .def("plan", &Kernels::plan, nb::keep_alive<0, 1>(), "An empty plan on these kernels.")
      .def("embed", &Kernels::embed, NoGil())
      .def("linear", &Kernels::linear, NoGil())
      .def("rms_norm", &Kernels::rms_norm, NoGil())
      .def("glu", &Kernels::glu, NoGil())
      .def("add", &Kernels::add, NoGil())
      .def("rows", &Kernels::rows, NoGil())
      .def("rope_and_store", &Kernels::rope_and_store, NoGil())
      .def("attention", &Kernels::attention, NoGil())
      .def("sample", &Kernels::sample)
      .def("logprobs", &Kernels::logprobs, NoGil());

  m.def("isas", &isas, "Instruction sets that this CPU and build offer, fastest first.");
}
