"""Write small ROOT files with structures that experiments use, for tests of the readers.

    python tests/support/make_root_files.py [FOLDER]

The files are stored in tests/data/root (see the README there). ROOT's wheel (`storelab install root`) writes all of
them, uproot writes those in UPROOT. The content is random with a fixed seed. Tests compare it with the arrays of
uproot, and with the counts in this module.
"""

import sys
from pathlib import Path

import awkward as ak
import numpy as np
import uproot
from paths import DATA

FOLDER = DATA / "root"
ENTRIES = 200
# file -> (tree or RNTuple, entries)
FILES = {
    "nanoaod.root": ("Events", ENTRIES),
    "xaod.root": ("CollectionTree", ENTRIES),
    "delphes.root": ("Delphes", ENTRIES),
    "ntuple.root": ("Events", ENTRIES),
    "lists.root": ("events", ENTRIES),
    "references.root": ("refs", 60),
}
UPROOT = ("lists.root",)

# ROOT writes these: a counter of several lists, baskets of empty lists, members of split objects with equal names.
MACRO = r"""
#include <TFile.h>
#include <TTree.h>
#include <TRandom3.h>
#include <TLorentzVector.h>
#include <TNtuple.h>
#include <TNtupleD.h>
#include <TRef.h>
#include <TClonesArray.h>
#include <vector>
#include <string>

void nanoaod(const char* path, int entries) {
  TFile f(path, "RECREATE", "", 505);
  TTree t("Events", "of a NanoAOD"); t.SetAutoFlush(0);
  UInt_t n; ULong64_t event; Bool_t fired, tight[20]; Float_t pt[20], eta[20]; Int_t charge[20]; UChar_t id[20]; Double_t weight;
  Short_t code; Float_t none[20]; UInt_t nNone; char word[16];
  t.Branch("event", &event, "event/l"); t.Branch("nMuon", &n, "nMuon/i");
  t.Branch("Muon_pt", pt, "Muon_pt[nMuon]/F"); t.Branch("Muon_eta", eta, "Muon_eta[nMuon]/F");
  t.Branch("Muon_charge", charge, "Muon_charge[nMuon]/I"); t.Branch("Muon_id", id, "Muon_id[nMuon]/b");
  t.Branch("Muon_tight", tight, "Muon_tight[nMuon]/O"); t.Branch("HLT_fired", &fired, "HLT_fired/O");
  t.Branch("weight", &weight, "weight/D"); t.Branch("code", &code, "code/S"); t.Branch("word", word, "word/C");
  t.Branch("nNone", &nNone, "nNone/i"); t.Branch("None_pt", none, "None_pt[nNone]/F");
  TRandom3 r(1);
  for (int i = 0; i < entries; i++) {
    n = r.Poisson(2); if (n > 20) n = 20; event = 1000000000000ull + i; fired = r.Rndm() < 0.3; weight = r.Gaus(); code = i % 7; nNone = 0;
    for (unsigned k = 0; k < n; k++) { pt[k] = r.Exp(20); eta[k] = r.Gaus(); charge[k] = r.Rndm() < .5 ? 1 : -1; id[k] = k; tight[k] = k % 2; }
    snprintf(word, 16, "event %d", i); t.Fill();
  }
  t.Write(); f.Close();
}

void xaod(const char* path, int entries) {
  TFile f(path, "RECREATE", "", 505);
  TTree t("CollectionTree", "of an xAOD"); t.SetAutoFlush(50);
  std::vector<float> pt; std::vector<int> author; std::vector<std::vector<float>> cells;
  std::string title; unsigned long long number;
  t.Branch("ElectronsAuxDyn.pt", &pt); t.Branch("ElectronsAuxDyn.author", &author); t.Branch("ElectronsAuxDyn.cells", &cells);
  t.Branch("title", &title);
  t.Branch("EventInfoAux.eventNumber", &number, "eventNumber/l"); t.Branch("MuonsAuxDyn.pt", &pt);
  TRandom3 r(2);
  for (int i = 0; i < entries; i++) {
    int n = r.Poisson(1.5); pt.clear(); author.clear(); cells.clear(); number = i; title = std::string(i % 5, 'x');
    for (int k = 0; k < n; k++) { pt.push_back(r.Exp(30)); author.push_back(k); cells.push_back(std::vector<float>(k + i % 3, 1.5f * k)); }
    t.Fill();
  }
  t.Write(); f.Close();
}

void delphes(const char* path, int entries) {
  TFile f(path, "RECREATE", "", 505);
  TTree t("Delphes", "arrays of objects, split: their members have the same names"); t.SetAutoFlush(40);
  TClonesArray *jets = new TClonesArray("TLorentzVector", 10), *muons = new TClonesArray("TLorentzVector", 10);
  Int_t size; t.Branch("Jet", &jets, 32000, 99); t.Branch("Jet_size", &size, "Jet_size/I"); t.Branch("Muon", &muons, 32000, 99);
  TRandom3 r(3);
  for (int i = 0; i < entries; i++) {
    jets->Clear(); muons->Clear(); size = r.Poisson(3);
    for (int k = 0; k < size; k++) new ((*jets)[k]) TLorentzVector(r.Gaus(), r.Gaus(), r.Gaus(), 50);
    for (int k = 0; k < i % 3; k++) new ((*muons)[k]) TLorentzVector(r.Gaus(), r.Gaus(), r.Gaus(), 20);
    t.Fill();
  }
  t.Write(); f.Close();
}

// Objects that a TRef refers to: their bits are two bytes longer (Delphes, `*.fBits`). Trees of other classes, in folders, of several cycles, empty.
void references(const char* path, int entries) {
  TFile f(path, "RECREATE", "", 101);
  TNtuple nt("nt", "", "a:b:c"); TNtupleD nd("nd", "", "a:b");
  for (int i = 0; i < entries; i++) { nt.Fill(i, 2 * i, -i); nd.Fill(i, .5 * i); }
  nt.Write(); nd.Write();
  int x = 0; TTree empty("empty", ""), nobranch("nobranch", ""); empty.Branch("x", &x); empty.Write(); nobranch.Write();
  f.mkdir("d")->cd(); TTree deep("deep", ""); deep.Branch("x", &x);
  for (x = 0; x < 10; x++) deep.Fill();
  deep.Write(); deep.Fill(); deep.Write(); f.cd();
  TTree words("words", ""); words.SetAutoFlush(20); char word[32]; auto p4 = new TLorentzVector; words.Branch("word", word, "word/C"); words.Branch("p4", &p4, 32000, 99);
  for (int i = 0; i < entries; i++) { snprintf(word, 32, "%s", std::string(i % 9, 'w').c_str()); p4->SetPxPyPzE(i, -i, 0, 2 * i); words.Fill(); }
  words.Write();
  TTree t("refs", ""); t.SetAutoFlush(20); TClonesArray* jets = new TClonesArray("TLorentzVector", 10); t.Branch("Jet", &jets, 32000, 99);
  TRef reference;
  for (int i = 0; i < entries; i++) {
    jets->Clear("C");
    for (int k = 0; k < i % 3; k++) { auto jet = new ((*jets)[k]) TLorentzVector(i, k, 0, 1); if (i % 2) reference = jet; }
    t.Fill();
  }
  t.Write(); f.Close();
}
"""
TUPLE = r"""
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <TRandom3.h>
#include <array>
#include <optional>

void ntuple(const char* path, int entries) {
  auto m = ROOT::RNTupleModel::Create();
  auto b = m->MakeField<bool>("b"); auto i8 = m->MakeField<std::int8_t>("i8"); auto u8 = m->MakeField<std::uint8_t>("u8");
  auto i16 = m->MakeField<std::int16_t>("i16"); auto u16 = m->MakeField<std::uint16_t>("u16"); auto i32 = m->MakeField<std::int32_t>("i32");
  auto u32 = m->MakeField<std::uint32_t>("u32"); auto i64 = m->MakeField<std::int64_t>("i64"); auto u64 = m->MakeField<std::uint64_t>("u64");
  auto f = m->MakeField<float>("f"); auto d = m->MakeField<double>("d"); auto s = m->MakeField<std::string>("s");
  auto v = m->MakeField<std::vector<float>>("v"); auto vv = m->MakeField<std::vector<std::vector<int>>>("vv"); auto vb = m->MakeField<std::vector<bool>>("vb");
  auto vs = m->MakeField<std::vector<std::string>>("vs"); auto a = m->MakeField<std::array<float, 3>>("a");
  auto p = m->MakeField<std::pair<int, float>>("p"); auto o = m->MakeField<std::optional<float>>("o");
  ROOT::RNTupleWriteOptions options; options.SetCompression(505);
  auto writer = ROOT::RNTupleWriter::Recreate(std::move(m), "Events", path, options);
  TRandom3 r(4);
  for (int n = 0; n < entries; n++) {
    *b = n % 3 == 0; *i8 = -n % 100; *u8 = n; *i16 = -n; *u16 = n; *i32 = -1000 * n; *u32 = 1000 * n; *i64 = -n; *u64 = n; *f = r.Gaus(); *d = r.Gaus();
    *s = std::string(n % 4, 's'); v->clear(); vv->clear(); vb->clear(); vs->clear();
    for (int k = 0; k < n % 4; k++) { v->push_back(r.Exp(3)); vv->push_back(std::vector<int>(k, n)); vb->push_back(k % 2); vs->push_back("k" + std::to_string(k)); }
    *a = {1.f * n, 2.f * n, 3.f * n}; *p = {n, .5f * n}; if (n % 2) *o = 1.f * n; else o->reset();
    writer->Fill();
    if (n % 50 == 49) writer->CommitCluster();
  }
}
"""


def lists(path: Path) -> None:
    """Write with uproot numbers, lists with a counter, strings, and baskets in which all lists are empty."""
    with uproot.recreate(path, compression=uproot.ZSTD(1)) as file:
        tree = file.mktree(
            "events", {"x": "f8", "n": "i4", "hits": "var * float32", "empty": "var * int32", "name": "string"}
        )
        rng = np.random.default_rng(5)
        for begin in range(0, ENTRIES, 50):
            counts = rng.poisson(2, 50) * (begin != 100)  # the third basket of `hits` has no values
            hits = ak.unflatten(rng.normal(size=counts.sum()).astype("f4"), counts)
            names = ak.Array([f"event {begin + i}" * (i % 3) for i in range(50)])
            empty = ak.unflatten(np.zeros(0, "i4"), np.zeros(50, int))
            tree.extend(
                {
                    "x": rng.normal(size=50),
                    "n": np.arange(50, dtype="i4") + begin,
                    "hits": hits,
                    "empty": empty,
                    "name": names,
                }
            )


def by_root(folder: Path) -> None:
    """Write the files that need ROOT. Raise ImportError if ROOT's wheel is not installed."""
    import ROOT

    for code in (MACRO, TUPLE):
        if not ROOT.gInterpreter.Declare(code):
            raise RuntimeError("ROOT refuses the code that writes the files")
    for name in FILES.keys() - set(UPROOT):
        getattr(ROOT, name.removesuffix(".root"))(str(folder / name), FILES[name][1])


def main(folder: Path = FOLDER) -> list[str]:
    """Write the files, and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    lists(folder / "lists.root")
    try:
        by_root(folder)
    except ImportError:
        return list(UPROOT)
    return list(FILES)


if __name__ == "__main__":
    print("\n".join(main(*map(Path, sys.argv[1:]))))
