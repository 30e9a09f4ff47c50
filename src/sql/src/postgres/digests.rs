//! `md5`, `sha256`, `sha384` and `sha512`, of texts and of bytes, and `encode`.
//!
//! PostgreSQL has the SHA functions for `bytea` alone; here a text is taken for its UTF-8 bytes, which are what it would be
//! cast to. `md5` gives hexadecimal text, the others bytes, as they do there.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use md5::{Digest, Md5};
use ring::digest::{SHA256, SHA384, SHA512, digest};

use super::refused;
use crate::errors::{QueryError, quoted, told};

pub(super) fn udf(sum: Sum) -> ScalarUDF {
    ScalarUDF::from(Digests { sum, signature: Signature::any(1, Volatility::Immutable) })
}

pub(super) fn encode() -> ScalarUDF {
    ScalarUDF::from(Encode { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sum {
    Md5,
    Sha256,
    Sha384,
    Sha512,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Digests {
    sum: Sum,
    signature: Signature,
}

impl Digests {
    fn of(&self, bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self.sum {
            Sum::Md5 => return Md5::digest(bytes).to_vec(),
            Sum::Sha256 => &SHA256,
            Sum::Sha384 => &SHA384,
            Sum::Sha512 => &SHA512,
        };
        digest(algorithm, bytes).as_ref().to_vec()
    }
}

impl ScalarUDFImpl for Digests {
    fn name(&self) -> &str {
        match self.sum {
            Sum::Md5 => "md5",
            Sum::Sha256 => "sha256",
            Sum::Sha384 => "sha384",
            Sum::Sha512 => "sha512",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let [kind] = arguments else { return internal_err!("a digest of how many values?") };
        if !kind.is_string() && !kind.is_binary() && !kind.is_null() {
            let name = self.name();
            let message = format!("The function {name} takes a text or bytes: write {name}(value::text).");
            return Err(told(QueryError::invalid(message).about(name)));
        }
        Ok(if self.sum == Sum::Md5 { DataType::Utf8 } else { DataType::Binary })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = args.args.as_slice() else { return internal_err!("a digest of how many values?") };
        let bytes = cast(&values.to_array(args.number_rows)?, &DataType::Binary)?;
        let sums = bytes.as_binary::<i32>().iter().map(|bytes| bytes.map(|bytes| self.of(bytes)));
        let sums: ArrayRef = match self.sum {
            Sum::Md5 => Arc::new(sums.map(|sum| sum.map(|sum| hex(&sum))).collect::<StringArray>()),
            _ => Arc::new(sums.collect::<BinaryArray>()),
        };
        debug_assert_eq!(sums.len(), args.number_rows);
        Ok(ColumnarValue::Array(sums))
    }
}

/// `encode(bytes, format)`: as base64 with its padding and a line's end behind every 76 letters, which DataFusion's lacks.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Encode {
    signature: Signature,
}

/// Letters of a line of base64.
const LINE: usize = 76;

impl ScalarUDFImpl for Encode {
    fn name(&self) -> &str {
        "encode"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [bytes, formats] = args.args.as_slice() else { return internal_err!("bytes without a format") };
        let bytes = cast(&bytes.to_array(rows)?, &DataType::Binary)?;
        let formats = cast(&formats.to_array(rows)?, &DataType::Utf8)?;
        let pairs = bytes.as_binary::<i32>().iter().zip(formats.as_string::<i32>());
        let texts = pairs.map(|pair| match pair {
            (Some(bytes), Some(format)) => encoded(bytes, format).map(Some),
            _ => Ok(None),
        });
        Ok(ColumnarValue::Array(Arc::new(texts.collect::<Result<StringArray>>()?)))
    }
}

fn encoded(bytes: &[u8], format: &str) -> Result<String> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(hex(bytes)),
        "base64" => {
            let whole = STANDARD.encode(bytes);
            let lines = whole.as_bytes().chunks(LINE).map(String::from_utf8_lossy);
            Ok(lines.collect::<Vec<_>>().join("\n"))
        }
        "escape" => {
            let letter = |byte: &u8| match byte {
                b'\\' => "\\\\".to_owned(),
                0 | 0x80.. => format!("\\{byte:03o}"),
                plain => char::from(*plain).to_string(),
            };
            Ok(bytes.iter().map(letter).collect())
        }
        _ => refused(format!("\"{}\" is no encoding: there are hex, base64 and escape.", quoted(format))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_postgresql_does() {
        for (bytes, format, expected) in [
            (&b"a"[..], "base64", "YQ==".to_owned()),
            (&[0, 92, 97, 255][..], "escape", r"\000\\a\377".to_owned()),
            (&[0, 255][..], "HEX", "00ff".to_owned()),
            (&[0; 60][..], "base64", format!("{}\n{}", "A".repeat(76), "A".repeat(4))),
        ] {
            assert_eq!(encoded(bytes, format).expect("a known format"), expected);
        }
        assert!(encoded(b"a", "base32").is_err());
    }

    #[test]
    fn digests_are_those_of_their_standards() {
        let of = |sum, text: &str| {
            let digests = Digests { sum, signature: Signature::any(1, Volatility::Immutable) };
            hex(&digests.of(text.as_bytes()))
        };
        // RFC 1321, A.5, and FIPS 180-2, B.1.
        assert_eq!(of(Sum::Md5, "abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(of(Sum::Md5, ""), "d41d8cd98f00b204e9800998ecf8427e");
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(Sum::Sha256, "abc"), sha256);
        assert_eq!(of(Sum::Sha512, "abc").len(), 128);
    }
}
