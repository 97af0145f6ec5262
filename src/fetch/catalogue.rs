//! Catalog of data sets by name: addresses, sizes, licenses, and published checksums.

use super::Checksum;
use super::Checksum::{Md5, Sha256};

/// Data set of the catalog.
#[derive(Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Name of the data set.
    pub name: &'static str,
    /// Description of the data set.
    pub what: &'static str,
    /// Terms of use, as its owners state them.
    pub license: &'static str,
    /// Page of the owners that states the terms of use.
    pub homepage: &'static str,
    /// Files to download; none if the data set must be obtained by hand.
    pub files: &'static [Remote],
    /// True if its archives are unpacked.
    pub unpacked: bool,
    /// Path for `data.path`, relative to the folder of its name.
    pub path: &'static str,
    /// Instructions for obtaining it, if there are no files.
    pub by_hand: &'static str,
}

/// File on a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Remote {
    /// Address of the file, unless a mirror is set.
    pub url: &'static str,
    /// Name of the file on this machine.
    pub file: &'static str,
    /// Size of the file, for display.
    pub bytes: Option<u64>,
    /// Published checksum; `None` if there is none.
    pub checksum: Option<Checksum>,
}

/// Returns the entry of this name.
pub fn entry(name: &str) -> Option<&'static CatalogEntry> {
    CATALOGUE.iter().find(|entry| entry.name == name)
}

const fn remote(url: &'static str, file: &'static str, bytes: u64, checksum: Checksum) -> Remote {
    Remote { url, file, bytes: Some(bytes), checksum: Some(checksum) }
}

/// All entries, by name.
pub static CATALOGUE: [CatalogEntry; 13] = [
    CatalogEntry {
        name: "cars196",
        what: "Stanford Cars: 16,185 photographs of 196 models",
        license: "for research and education only, of ImageNet's terms",
        homepage: "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        files: &[],
        unpacked: false,
        path: "",
        by_hand: "its server no longer exists: get a copy elsewhere (cars_train/, cars_test/, devkit/, cars_test_annos_withlabels.mat), \
                  name its folder with data.path, and `fedcast plan` says how its labels are read",
    },
    CatalogEntry {
        name: "cifar10",
        what: "60,000 images of 32 x 32 pixels in 10 classes, binary version",
        license: "none stated; cite Krizhevsky 2009",
        homepage: "https://www.cs.toronto.edu/~kriz/cifar.html",
        files: &[remote(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar-10-binary.tar.gz",
            170_052_171,
            Md5("c32a1d4ab5d03f1284b67883e8d87530"),
        )],
        unpacked: false,
        path: "cifar-10-binary.tar.gz",
        by_hand: "",
    },
    CatalogEntry {
        name: "cifar100",
        what: "60,000 images of 32 x 32 pixels in 100 classes, binary version",
        license: "none stated; cite Krizhevsky 2009",
        homepage: "https://www.cs.toronto.edu/~kriz/cifar.html",
        files: &[remote(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "cifar-100-binary.tar.gz",
            168_513_733,
            Md5("03b5dce01913d631647c71ecec9e9cb8"),
        )],
        unpacked: false,
        path: "cifar-100-binary.tar.gz",
        by_hand: "",
    },
    CatalogEntry {
        name: "cub200",
        what: "Caltech-UCSD Birds 200-2011: 11,788 photographs of 200 species",
        license: "none stated, images of others; cite Wah et al. 2011",
        homepage: "https://data.caltech.edu/records/65de6-vp158",
        files: &[remote(
            "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            "CUB_200_2011.tgz",
            1_150_585_339,
            Md5("97eceeb196236b17998738112f37df78"),
        )],
        unpacked: true,
        path: "files/CUB_200_2011",
        by_hand: "",
    },
    CatalogEntry {
        name: "domainnet",
        what: "586,575 images of 345 classes in six domains, with its lists of training and test images",
        license: "for research only: fair use of images of others",
        homepage: "http://ai.bu.edu/M3SDA/",
        files: &DOMAINNET,
        unpacked: true,
        path: "files",
        by_hand: "",
    },
    CatalogEntry {
        name: "emnist",
        what: "handwritten letters and digits of 28 x 28 pixels, all six divisions",
        license: "public domain (NIST); cite Cohen et al. 2017",
        homepage: "https://www.nist.gov/itl/products-and-services/emnist-dataset",
        files: &[remote(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            "gzip.zip",
            561_753_746,
            Md5("58c8d27c78d21e728a6bc7b3cc06412e"),
        )],
        unpacked: true,
        path: "files/gzip",
        by_hand: "",
    },
    CatalogEntry {
        name: "eurosat",
        what: "27,000 satellite images of 64 x 64 pixels in 10 classes, in color",
        license: "MIT; cite Helber et al. 2019",
        homepage: "https://github.com/phelber/eurosat",
        files: &[remote(
            "https://huggingface.co/datasets/torchgeo/eurosat/resolve/c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip",
            "EuroSAT.zip",
            94_280_567,
            Md5("c8fa014336c82ac7804f0398fcb19387"),
        )],
        unpacked: true,
        path: "files/2750",
        by_hand: "",
    },
    CatalogEntry {
        name: "fashion-mnist",
        what: "70,000 pictures of clothes of 28 x 28 pixels in 10 classes",
        license: "MIT; cite Xiao et al. 2017",
        homepage: "https://github.com/zalandoresearch/fashion-mnist",
        files: &FASHION,
        unpacked: false,
        path: "",
        by_hand: "",
    },
    CatalogEntry {
        name: "imagenet-a",
        what: "7,500 photographs of 200 classes that classifiers mistake",
        license: "MIT (code), images of others; cite Hendrycks et al. 2021",
        homepage: "https://github.com/hendrycks/natural-adv-examples",
        files: &[remote(
            "https://people.eecs.berkeley.edu/~hendrycks/imagenet-a.tar",
            "imagenet-a.tar",
            687_552_512,
            Sha256("3bb3632277e6ba6392ea64c02ddbf4dd2266c9caffd6bc09c9656d28f012589e"),
        )],
        unpacked: true,
        path: "files/imagenet-a",
        by_hand: "",
    },
    CatalogEntry {
        name: "imagenet-r",
        what: "30,000 renditions of 200 classes",
        license: "MIT (code), images of others; cite Hendrycks et al. 2021",
        homepage: "https://github.com/hendrycks/imagenet-r",
        files: &[remote(
            "https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",
            "imagenet-r.tar",
            2_191_079_936,
            Sha256("18c6bf493b39a0d975d48e587437f562caab9c52ae6327dcfa9dd8eb54aa1b52"),
        )],
        unpacked: true,
        path: "files/imagenet-r",
        by_hand: "",
    },
    CatalogEntry {
        name: "mnist",
        what: "70,000 handwritten digits of 28 x 28 pixels",
        license: "CC BY-SA 3.0; cite LeCun et al. 1998",
        homepage: "http://yann.lecun.com/exdb/mnist/",
        files: &MNIST,
        unpacked: false,
        path: "",
        by_hand: "",
    },
    CatalogEntry {
        name: "tiny-imagenet",
        what: "110,000 photographs of 64 x 64 pixels in 200 classes, as Stanford's course gives it",
        license: "for research and education only, of ImageNet's terms",
        homepage: "http://cs231n.stanford.edu/",
        files: &[remote(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "tiny-imagenet-200.zip",
            248_100_043,
            Md5("90528d7ca1a48142e341f4ef8d21d0de"),
        )],
        unpacked: true,
        path: "files/tiny-imagenet-200",
        by_hand: "",
    },
    CatalogEntry {
        name: "tinyshakespeare",
        what: "40,000 lines of plays as one text",
        license: "the plays are in the public domain",
        homepage: "https://github.com/karpathy/char-rnn",
        files: &[Remote {
            url: "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            file: "input.txt",
            bytes: Some(1_115_394),
            checksum: None,
        }],
        unpacked: false,
        path: "input.txt",
        by_hand: "",
    },
];

static MNIST: [Remote; 4] = [
    remote(
        "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
        "train-images-idx3-ubyte.gz",
        9_912_422,
        Md5("f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    ),
    remote(
        "https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        28_881,
        Md5("d53e105ee54ea40749a09fcbcd1e9432"),
    ),
    remote(
        "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        1_648_877,
        Md5("9fb629c4189551a2d022fa330f9573f3"),
    ),
    remote(
        "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
        4_542,
        Md5("ec29112dd5afa0611ce80d1b7f02629c"),
    ),
];

static FASHION: [Remote; 4] = [
    remote(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
        "train-images-idx3-ubyte.gz",
        26_421_880,
        Md5("8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ),
    remote(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        29_515,
        Md5("25c81989df183df01b3e8a0aad5dffbe"),
    ),
    remote(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        4_422_102,
        Md5("bef4ecab320f06d8554ea6380940ec79"),
    ),
    remote(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
        5_148,
        Md5("bb300cfdad3c16e7a12a480ee83cd310"),
    ),
];

/// Files of DomainNet.
///
/// Checksums of the archives are those on which several loaders agree. None are published for the lists of images, so
/// their digests are recorded at the first download.
static DOMAINNET: [Remote; 18] = [
    known(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/groundtruth/clipart.zip",
        "clipart.zip",
        Md5("cd0d8f2d77a4e181449b78ed62bccf1e"),
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/clipart_train.txt",
        "clipart_train.txt",
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/clipart_test.txt",
        "clipart_test.txt",
    ),
    known(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/infograph.zip",
        "infograph.zip",
        Md5("720380b86f9e6ab4805bb38b6bd135f8"),
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/infograph_train.txt",
        "infograph_train.txt",
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/infograph_test.txt",
        "infograph_test.txt",
    ),
    known(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/groundtruth/painting.zip",
        "painting.zip",
        Md5("1ae32cdb4f98fe7ab5eb0a351768abfd"),
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/painting_train.txt",
        "painting_train.txt",
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/painting_test.txt",
        "painting_test.txt",
    ),
    known(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/quickdraw.zip",
        "quickdraw.zip",
        Md5("bdc1b6f09f277da1a263389efe0c7a66"),
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/quickdraw_train.txt",
        "quickdraw_train.txt",
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/quickdraw_test.txt",
        "quickdraw_test.txt",
    ),
    known(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/real.zip",
        "real.zip",
        Md5("dcc47055e8935767784b7162e7c7cca6"),
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/real_train.txt",
        "real_train.txt",
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/real_test.txt",
        "real_test.txt",
    ),
    known(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/sketch.zip",
        "sketch.zip",
        Md5("658d8009644040ff7ce30bb2e820850f"),
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/sketch_train.txt",
        "sketch_train.txt",
    ),
    unchecked(
        "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/sketch_test.txt",
        "sketch_test.txt",
    ),
];

const fn known(url: &'static str, file: &'static str, checksum: Checksum) -> Remote {
    Remote { url, file, bytes: None, checksum: Some(checksum) }
}

const fn unchecked(url: &'static str, file: &'static str) -> Remote {
    Remote { url, file, bytes: None, checksum: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn entries_are_sorted_and_can_be_used() {
        assert!(CATALOGUE.is_sorted_by_key(|entry| entry.name));
        for entry in &CATALOGUE {
            let name = entry.name;
            assert_eq!(entry.files.is_empty(), !entry.by_hand.is_empty(), "{name}");
            let files: BTreeSet<&str> = entry.files.iter().map(|file| file.file).collect();
            assert_eq!(files.len(), entry.files.len(), "{name}: a file twice");
            for file in entry.files {
                assert!(file.url.starts_with("http") && !file.file.contains('/'), "{name}");
                let length = match file.checksum {
                    Some(Md5(hex)) => hex.len() == 32 && is_hex(hex),
                    Some(Sha256(hex)) => hex.len() == 64 && is_hex(hex),
                    None => true,
                };
                assert!(length, "{name}: {}", file.file);
            }
            match entry.unpacked {
                true => assert!(entry.path.starts_with("files"), "{name}"),
                false => assert!(entry.path.is_empty() || files.contains(entry.path), "{name}"),
            }
        }
    }

    fn is_hex(text: &str) -> bool {
        text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}
