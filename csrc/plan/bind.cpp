// kernels/record.py is the only caller of Plan: it has checked shapes and types, laid out the
// arena, and keeps weights and arrays alive. runner/graph.py fills Steps.
#include "plan/bind.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>
#include <vector>

#include "base/weight.h"
#include "layout.h"
#include "plan/plan.h"

namespace nb = nanobind;

namespace stoker {
namespace {

using Address = uintptr_t;
using Places = std::tuple<Address, Address, Address>;  // of an operand, by Code
using PartOf = std::tuple<const PackedWeight*, Address, Address, Address>;  // bias, residual, out

template <class T> T* at(Address address) { return reinterpret_cast<T*>(address); }

Operand operand(const Places& p) {
  return {{at<void>(std::get<0>(p)), at<void>(std::get<1>(p)), at<void>(std::get<2>(p))}};
}

// A sequence of Python ints as int32.
class Ints {
 public:
  explicit Ints(nb::handle values)
      : fast_(nb::steal(PySequence_Fast(values.ptr(), "a sequence of ints is needed"))) {
    if (!fast_.is_valid()) nb::raise_python_error();
  }
  int64_t size() const { return PySequence_Fast_GET_SIZE(fast_.ptr()); }
  void copy_to(int32_t* out) const {
    PyObject** items = PySequence_Fast_ITEMS(fast_.ptr());
    for (int64_t i = 0, n = size(); i < n; ++i) {
      const long value = PyLong_AsLong(items[i]);
      if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
      if (value != int32_t(value)) throw std::invalid_argument("an id is not an int32");
      out[i] = int32_t(value);
    }
  }

 private:
  nb::object fast_;
};

void add_sequence(Step& step, nb::handle token_ids, int64_t start, nb::handle page_tables,
                  bool samples) {
  const Ints tokens(token_ids);
  step.open(start, tokens.size());
  tokens.copy_to(step.token_ids());
  if (nb::len(page_tables) != size_t(step.groups))
    throw std::invalid_argument("a sequence needs one page table per KV group");
  for (int64_t group = 0; group < step.groups; ++group) {
    const Ints pages(page_tables[group]);
    pages.copy_to(step.page_table(group, pages.size()));
  }
  if (samples) step.sample_last();
}

Part part(const PartOf& p) {
  const auto& [weight, bias, residual, result] = p;
  return {weight->view(), at<float>(bias), at<float>(residual), at<float>(result)};
}

void product(Plan& plan, bool samples, int64_t times, int64_t K, const Places& x,
             const std::vector<PartOf>& parts) {
  std::vector<Part> views;
  for (const PartOf& p : parts) views.push_back(part(p));
  plan.product({samples, times}, {operand(x), 0, K, nullptr, 0}, views);
}

void bind_step(nb::module_& m) {
  nb::class_<Step>(m, "Step")
      .def(nb::init<int64_t, int64_t, int64_t, int64_t>())
      .def("clear", &Step::clear)
      .def("add", &add_sequence)
      .def_prop_ro("num_samples", &Step::samples);
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_step(m);
  nb::class_<Plan>(m, "Plan")
      .def("embed", [](Plan& plan, const PackedWeight& table, float scale, Address result) {
        plan.embed({nullptr, 0, table.view(), scale, at<float>(result)});
      })
      .def("take_rows", [](Plan& plan, Address x, int64_t K, Address result) {
        plan.take_rows({at<float>(x), nullptr, 0, K, at<float>(result)});
      })
      .def("prepare", [](Plan& plan, bool samples, int64_t times, Source source, Address x,
                         Address y, Address weight, float eps, int64_t K, const Places& result) {
        plan.prepare({samples, times}, {source, at<float>(x), at<float>(y), at<float>(weight), eps,
                                        0, K, operand(result)});
      })
      .def("product", &product)
      .def("gated", [](Plan& plan, bool samples, int64_t times, int64_t K, const Places& x,
                       const PartOf& gate, const PartOf& up, bool gelu, Address result) {
        plan.gated({samples, times},
                   {operand(x), 0, K, part(gate), part(up), gelu, at<void>(result)});
      })
      .def("add", [](Plan& plan, bool samples, int64_t times, Address x, Address y, int64_t width,
                     Address result) {
        plan.add({samples, times}, {at<float>(x), at<float>(y), 0, at<float>(result)}, width);
      })
      .def("rope_and_store", [](Plan& plan, int64_t group, Address q, Address k, Address v,
                                Address cos_sin, int64_t max_positions, const KV& kv,
                                int64_t heads, Address q_norm, Address k_norm, float q_eps,
                                float k_eps, Address result) {
        plan.rope_and_store(group, {at<float>(q), at<float>(k), at<float>(v), at<float>(cos_sin),
                                    {}, kv, heads, at<float>(q_norm), at<float>(k_norm), q_eps,
                                    k_eps, at<float>(result)}, max_positions);
      })
      .def("attention", [](Plan& plan, int64_t group, Address q, const KV& kv, int64_t heads,
                           float scale, int64_t window, Address result) {
        plan.attention(group, {at<float>(q), {}, kv, heads, scale, window, at<float>(result)});
      })
      .def("run", &Plan::run, nb::call_guard<nb::gil_scoped_release>());

  nb::enum_<Source>(m, "Source")
      .value("rows", Source::rows).value("rms_norm", Source::rms_norm)
      .value("silu_glu", Source::silu_glu).value("gelu_glu", Source::gelu_glu);
  nb::enum_<Code>(m, "Code")
      .value("f32", Code::f32).value("i8", Code::i8).value("i8_halves", Code::i8_halves);
  m.def("operand_bytes", [](Code code, int64_t M, int64_t K) { return operand_bytes(code, M, K); });
}

}  // namespace stoker
