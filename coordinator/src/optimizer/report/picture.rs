//! A picture in few colours as a PNG file (ISO/IEC 15948): indexed, and its data stored without compression, which needs no
//! library and is small enough for a map of some hundred cells.

/// Colours and their places, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// At most 256.
    pub(super) palette: Vec<[u8; 3]>,
    /// One index for each place.
    pub(super) places: Vec<u8>,
}

/// Largest piece of a stored block (RFC 1951, section 3.2.4).
const STORED_MAX: usize = 65_535;

impl Picture {
    /// A picture of the palette's first colour.
    pub(super) fn new(width: usize, height: usize, palette: Vec<[u8; 3]>) -> Self {
        Self { width, height, palette, places: vec![0; width * height] }
    }

    /// Fills a rectangle; what lies outside of the picture is left out.
    pub(super) fn fill(&mut self, (left, top): (usize, usize), (width, height): (usize, usize), colour: u8) {
        for row in top..(top + height).min(self.height) {
            for column in left..(left + width).min(self.width) {
                self.places[row * self.width + column] = colour;
            }
        }
    }

    /// The file.
    pub(super) fn png(&self) -> Vec<u8> {
        let mut file = vec![0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
        let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        // Eight bits a place, indexed colour, deflate, no filter, no interlacing.
        let header = [side(self.width).as_slice(), &side(self.height), &[8, 3, 0, 0, 0]].concat();
        chunk(&mut file, b"IHDR", &header);
        chunk(&mut file, b"PLTE", &self.palette.concat());
        chunk(&mut file, b"IDAT", &self.data());
        chunk(&mut file, b"IEND", &[]);
        file
    }

    /// Rows, each behind the byte of its filter, as a zlib stream of stored blocks (RFC 1950).
    fn data(&self) -> Vec<u8> {
        let mut rows = Vec::with_capacity((self.width + 1) * self.height);
        for row in self.places.chunks(self.width.max(1)) {
            rows.push(0);
            rows.extend(row);
        }
        let mut stream = vec![0x78, 0x01];
        let mut pieces = rows.chunks(STORED_MAX).peekable();
        while let Some(piece) = pieces.next() {
            stream.push(u8::from(pieces.peek().is_none()));
            let length = piece.len() as u16;
            stream.extend(length.to_le_bytes());
            stream.extend((!length).to_le_bytes());
            stream.extend(piece);
        }
        stream.extend(adler32(&rows).to_be_bytes());
        stream
    }
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    file.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    let from = file.len();
    file.extend(kind);
    file.extend(data);
    let checksum = crc32(&file[from..]);
    file.extend(checksum.to_be_bytes());
}

/// The checksum of PNG chunks (ISO 3309).
fn crc32(bytes: &[u8]) -> u32 {
    let step = |register: u32, byte: &u8| {
        (0..8).fold(register ^ u32::from(*byte), |register, _| {
            if register & 1 == 1 { (register >> 1) ^ 0xEDB8_8320 } else { register >> 1 }
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// The checksum of zlib streams.
fn adler32(bytes: &[u8]) -> u32 {
    let step = |(a, b): (u32, u32), byte: &u8| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    };
    let (a, b) = bytes.iter().fold((1, 0), step);
    (b << 16) | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_those_of_their_standards() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }

    #[test]
    fn a_picture_is_a_file_whose_chunks_hold_together() {
        let mut picture = Picture::new(400, 300, vec![[255, 255, 255], [200, 0, 0]]);
        picture.fill((390, 290), (50, 50), 1);
        assert_eq!(picture.places.iter().filter(|place| **place == 1).count(), 100, "clipped at the edge");
        let file = picture.png();
        assert_eq!(&file[..8], b"\x89PNG\r\n\x1a\n");
        let (mut at, mut kinds, mut data) = (8, Vec::new(), Vec::new());
        while at < file.len() {
            let length = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
            let body = &file[at + 4..at + 8 + length];
            let told = u32::from_be_bytes(file[at + 8 + length..at + 12 + length].try_into().unwrap());
            assert_eq!(crc32(body), told);
            kinds.push(String::from_utf8(body[..4].to_vec()).unwrap());
            if &body[..4] == b"IDAT" {
                data = body[4..].to_vec();
            }
            at += 12 + length;
        }
        assert_eq!(kinds, ["IHDR", "PLTE", "IDAT", "IEND"]);
        // The stored blocks, put together again, are the rows.
        let (mut at, mut rows, mut last) = (2, Vec::new(), 0);
        while last == 0 {
            last = data[at];
            let length = u16::from_le_bytes([data[at + 1], data[at + 2]]);
            assert_eq!(!length, u16::from_le_bytes([data[at + 3], data[at + 4]]));
            rows.extend(&data[at + 5..at + 5 + usize::from(length)]);
            at += 5 + usize::from(length);
        }
        assert_eq!(rows.len(), 401 * 300);
        assert_eq!(data[at..], adler32(&rows).to_be_bytes());
    }
}
