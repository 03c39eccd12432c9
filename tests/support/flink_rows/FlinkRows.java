// Writes binlog rows with Flink's own serializer, one line of JSON each: types, the texts that PostgreSQL has, the bytes.
//
// The jars are those of the package apache-flink-libraries 2.0.0 (deps/lib in its archive); lz4-java, with which the
// connector of Hologres decompresses, is among those of pyspark:
//
//   java -cp 'deps/lib/*:pyspark/jars/lz4-java-*.jar' FlinkRows.java > vectors.jsonl
//
// How each type is written is taken from holo-client, RecordBinaryRowOutputStream.convertToBinaryRow. Texts are Java's
// own (Long, BigDecimal, LocalDate), or written out by hand. The numbers are drawn with a fixed seed.

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import net.jpountz.lz4.LZ4Factory;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryArrayData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.binary.BinarySegmentUtils;
import org.apache.flink.table.data.writer.BinaryArrayWriter;
import org.apache.flink.table.data.writer.BinaryRowWriter;
import org.apache.flink.table.runtime.typeutils.ArrayDataSerializer;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.BooleanType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.FloatType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.VarCharType;

public class FlinkRows {
    interface Write {
        void at(BinaryRowWriter writer, int place);
    }

    record Cell(String type, String text, Write write) {}

    static final Random CHANCE = new Random(19);
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] args) {
        List<List<Cell>> kinds = List.of(
                whole(), fractions(), booleans(), numerics(), texts(), days(), times(), moments(), bytes(), arrays());
        List<byte[]> rows = new ArrayList<>();
        int lsn = 0;
        for (List<Cell> kind : kinds) {
            for (Cell cell : kind) {
                byte[] row = print(++lsn, List.of(cell));
                if (lsn % 8 == 0) {
                    rows.add(row);
                    print(++lsn, List.of(new Cell(cell.type, null, null), cell));
                }
            }
        }
        for (int count : new int[] {0, 52, 53, 54, 60, 61, 62, 125, 200}) {
            List<Cell> wide = new ArrayList<>();
            for (int place = 0; place < count; place++) {
                List<Cell> kind = kinds.get(CHANCE.nextInt(kinds.size()));
                Cell cell = kind.get(CHANCE.nextInt(kind.size()));
                wide.add(CHANCE.nextInt(4) == 0 ? new Cell(cell.type, null, null) : cell);
            }
            print(++lsn, wide);
        }
        byte[] message = message(rows);
        byte[] block = LZ4Factory.fastestInstance().fastCompressor().compress(message);
        OUT.printf("{\"rows\": %d, \"message\": \"%s\"}%n", rows.size(), hex(message));
        ByteBuffer framed = ByteBuffer.allocate(4 + block.length).putInt(message.length).put(block);
        OUT.printf("{\"rows\": %d, \"compressed\": \"%s\"}%n", rows.size(), hex(framed.array()));
    }

    // -- by type ---------------------------------------------------------------------------------------------------

    static List<Cell> whole() {
        List<Cell> found = new ArrayList<>();
        for (long value : longs(Short.MIN_VALUE, Short.MAX_VALUE)) {
            found.add(new Cell("smallint", Long.toString(value), (w, p) -> w.writeShort(p, (short) value)));
        }
        for (long value : longs(Integer.MIN_VALUE, Integer.MAX_VALUE)) {
            found.add(new Cell("integer", Long.toString(value), (w, p) -> w.writeInt(p, (int) value)));
        }
        for (long value : longs(Long.MIN_VALUE, Long.MAX_VALUE)) {
            found.add(new Cell("bigint", Long.toString(value), (w, p) -> w.writeLong(p, value)));
        }
        for (long value : new long[] {0, 1, 1L << 31, (1L << 32) - 1}) {
            found.add(new Cell("oid", Long.toString(value), (w, p) -> w.writeLong(p, value)));
        }
        return found;
    }

    static long[] longs(long low, long high) {
        long[] found = {0, 1, -1, low, high, low + 1, high - 1, 0, 0, 0, 0};
        for (int place = 7; place < found.length; place++) {
            found[place] = low == Long.MIN_VALUE ? CHANCE.nextLong() : CHANCE.nextLong(low, high);
        }
        return found;
    }

    static List<Cell> fractions() {
        String[][] reals = {
            {"0", "0"}, {"-0.0", "-0"}, {"1.5", "1.5"}, {"0.1", "0.1"}, {"1e6", "1e+06"}, {"123456", "123456"},
            {"1e-4", "0.0001"}, {"1e-5", "1e-05"}, {"3.4028235e38", "3.4028235e+38"}, {"1e-45", "1e-45"},
            {"16777216", "1.6777216e+07"}, {"NaN", "NaN"}, {"Infinity", "Infinity"}, {"-Infinity", "-Infinity"},
        };
        String[][] doubles = {
            {"0", "0"}, {"-0.0", "-0"}, {"1.5", "1.5"}, {"0.1", "0.1"}, {"1e15", "1e+15"},
            {"123456789012345", "123456789012345"}, {"1e-4", "0.0001"}, {"1e-5", "1e-05"},
            {"1.7976931348623157e308", "1.7976931348623157e+308"}, {"4.9e-324", "5e-324"},
            {"0.30000000000000004", "0.30000000000000004"}, {"9007199254740993", "9.007199254740992e+15"},
            {"NaN", "NaN"}, {"Infinity", "Infinity"}, {"-Infinity", "-Infinity"},
        };
        List<Cell> found = new ArrayList<>();
        for (String[] one : reals) {
            float value = Float.parseFloat(one[0]);
            found.add(new Cell("real", one[1], (w, p) -> w.writeFloat(p, value)));
        }
        for (String[] one : doubles) {
            double value = Double.parseDouble(one[0]);
            found.add(new Cell("double precision", one[1], (w, p) -> w.writeDouble(p, value)));
        }
        return found;
    }

    static List<Cell> booleans() {
        return List.of(
                new Cell("boolean", "t", (w, p) -> w.writeBoolean(p, true)),
                new Cell("boolean", "f", (w, p) -> w.writeBoolean(p, false)));
    }

    static List<Cell> numerics() {
        List<Cell> found = new ArrayList<>();
        int[][] sizes = {{1, 0}, {12, 2}, {18, 18}, {38, 0}, {38, 8}, {38, 38}};
        for (int[] size : sizes) {
            BigInteger most = BigInteger.TEN.pow(size[0]).subtract(BigInteger.ONE);
            List<BigInteger> digits = new ArrayList<>(List.of(BigInteger.ZERO, BigInteger.ONE, most, most.negate()));
            for (int n = 0; n < 4; n++) {
                BigInteger drawn = new BigInteger(size[0] * 3, CHANCE);
                digits.add(CHANCE.nextBoolean() ? drawn : drawn.negate());
            }
            for (BigInteger unscaled : digits) {
                String text = new BigDecimal(unscaled, size[1]).toPlainString();
                byte[] raw = sixteen(unscaled);
                String type = "numeric(" + size[0] + "," + size[1] + ")";
                found.add(new Cell(type, text, (w, p) -> w.writeBinary(p, raw)));
            }
        }
        return found;
    }

    // holo-client: the bytes of the unscaled number from the lowest on, filled up to sixteen with its sign
    static byte[] sixteen(BigInteger unscaled) {
        byte[] digits = unscaled.toByteArray();
        byte[] raw = new byte[16];
        for (int place = 0; place < raw.length; place++) {
            byte sign = (byte) (unscaled.signum() < 0 ? 0xff : 0);
            raw[place] = place < digits.length ? digits[digits.length - place - 1] : sign;
        }
        return raw;
    }

    static final String[] TEXTS = {
        "", "a", "seven77", "eight888", "nine 9999", "NULL", "null", "{}", "a,b", "quo\"te", "back\\slash",
        " blank ", "line\nend", "\t", "äöü", "äöü€", "\ud83d\ude00", "日本語テキスト", "x".repeat(80),
    };

    static List<Cell> texts() {
        List<Cell> found = new ArrayList<>();
        for (String type : new String[] {"text", "character varying(400)", "json", "jsonb"}) {
            for (String text : TEXTS) {
                found.add(new Cell(type, text, (w, p) -> w.writeString(p, StringData.fromString(text))));
            }
        }
        for (String text : new String[] {"", "a", "abcde", "ä", "seven77"}) {
            String padded = text + " ".repeat(8 - text.length());
            found.add(new Cell("character(8)", padded, (w, p) -> w.writeString(p, StringData.fromString(text))));
        }
        return found;
    }

    static List<Cell> days() {
        List<Cell> found = new ArrayList<>();
        for (String text : new String[] {"1970-01-01", "1969-12-31", "2000-02-29", "1900-03-01", "9999-12-31", "0001-01-01"}) {
            int day = (int) LocalDate.parse(text).toEpochDay();
            found.add(new Cell("date", text, (w, p) -> w.writeInt(p, day)));
        }
        for (int n = 0; n < 20; n++) {
            int day = CHANCE.nextInt(-2_440_588, 2_932_896);
            LocalDate date = LocalDate.ofEpochDay(day);
            int year = date.getYear();
            String rest = date.format(DateTimeFormatter.ofPattern("-MM-dd"));
            String text = year > 0 ? String.format("%04d%s", year, rest) : String.format("%04d%s BC", 1 - year, rest);
            found.add(new Cell("date", text, (w, p) -> w.writeInt(p, day)));
        }
        return found;
    }

    static List<Cell> times() {
        List<Cell> found = new ArrayList<>();
        Object[][] some = {
            {"00:00:00", 0L}, {"23:59:59.999999", 86_399_999_999L}, {"24:00:00", 86_400_000_000L},
            {"12:34:56.5", 45_296_500_000L}, {"00:00:00.000001", 1L}, {"01:00:00.1", 3_600_100_000L},
        };
        Object[][] zones = {{"+00", 0}, {"+08", -28_800}, {"-05", 18_000}, {"+05:30", -19_800}, {"-03:30", 12_600}, {"+15:59:59", -57_599}};
        for (Object[] one : some) {
            long us = (Long) one[1];
            found.add(new Cell("time without time zone", (String) one[0], (w, p) -> w.writeLong(p, us)));
            for (Object[] zone : zones) {
                byte[] raw = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN).putLong(us).putInt((Integer) zone[1]).array();
                found.add(new Cell("time with time zone", (String) one[0] + zone[0], (w, p) -> w.writeBinary(p, raw)));
            }
        }
        return found;
    }

    static List<Cell> moments() {
        List<Cell> found = new ArrayList<>();
        DateTimeFormatter seconds = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");
        for (int n = 0; n < 20; n++) {
            long second = n == 0 ? 0 : CHANCE.nextLong(-62_135_596_800L, 253_402_300_799L);
            int us = n % 3 == 0 ? 0 : CHANCE.nextInt(1, 1_000_000);
            int ms = us / 1000;
            String text = LocalDateTime.ofEpochSecond(second, 0, ZoneOffset.UTC).format(seconds);
            long both = second * 1_000_000 + us;
            long less = second * 1_000 + ms;
            found.add(new Cell("timestamp without time zone", text + part(us, 6), (w, p) -> w.writeLong(p, both)));
            found.add(new Cell("timestamp with time zone", text + part(ms, 3) + "+00", (w, p) -> w.writeLong(p, less)));
        }
        return found;
    }

    static String part(int value, int digits) {
        return value == 0 ? "" : String.format(".%0" + digits + "d", value).replaceAll("0+$", "");
    }

    static List<Cell> bytes() {
        List<Cell> found = new ArrayList<>();
        for (int size : new int[] {0, 1, 6, 7, 8, 9, 16, 100}) {
            byte[] raw = new byte[size];
            CHANCE.nextBytes(raw);
            for (String type : new String[] {"bytea", "roaringbitmap"}) {
                found.add(new Cell(type, "\\x" + hex(raw), (w, p) -> w.writeBinary(p, raw)));
            }
        }
        return found;
    }

    // -- arrays ----------------------------------------------------------------------------------------------------

    interface Element {
        void at(BinaryArrayWriter writer, int place, boolean isNull);
    }

    static List<Cell> arrays() {
        List<Cell> found = new ArrayList<>();
        for (int size : new int[] {0, 1, 2, 5, 31, 32, 33, 64, 65}) {
            int[] ints = CHANCE.ints(size).toArray();
            long[] longs = CHANCE.longs(size).toArray();
            found.add(array("integer[]", new IntType(), 4, size, n -> "" + ints[n],
                    (w, n, gone) -> { if (gone) w.setNullInt(n); else w.writeInt(n, ints[n]); }));
            found.add(array("bigint[]", new BigIntType(), 8, size, n -> "" + longs[n],
                    (w, n, gone) -> { if (gone) w.setNullLong(n); else w.writeLong(n, longs[n]); }));
            found.add(array("real[]", new FloatType(), 4, size, n -> n + ".5",
                    (w, n, gone) -> { if (gone) w.setNullFloat(n); else w.writeFloat(n, n + 0.5f); }));
            found.add(array("double precision[]", new DoubleType(), 8, size, n -> n + ".25",
                    (w, n, gone) -> { if (gone) w.setNullDouble(n); else w.writeDouble(n, n + 0.25); }));
            found.add(array("boolean[]", new BooleanType(), 1, size, n -> n % 2 == 0 ? "t" : "f",
                    (w, n, gone) -> { if (gone) w.setNullBoolean(n); else w.writeBoolean(n, n % 2 == 0); }));
            for (String type : new String[] {"text[]", "character varying(400)[]"}) {
                found.add(array(type, new VarCharType(VarCharType.MAX_LENGTH), 8, size, n -> quoted(TEXTS[n % TEXTS.length]),
                        (w, n, gone) -> {
                            if (gone) w.setNullLong(n); else w.writeString(n, StringData.fromString(TEXTS[n % TEXTS.length]));
                        }));
            }
        }
        return found;
    }

    interface Spelled {
        String of(int place);
    }

    static Cell array(String type, LogicalType element, int size, int count, Spelled text, Element write) {
        BinaryArrayData array = new BinaryArrayData();
        BinaryArrayWriter writer = new BinaryArrayWriter(array, count, size);
        List<String> texts = new ArrayList<>();
        for (int place = 0; place < count; place++) {
            boolean gone = place % 7 == 3;
            write.at(writer, place, gone);
            texts.add(gone ? "NULL" : text.of(place));
        }
        writer.complete();
        ArrayDataSerializer serializer = new ArrayDataSerializer(element);
        return new Cell(type, "{" + String.join(",", texts) + "}", (w, p) -> w.writeArray(p, array, serializer));
    }

    // PostgreSQL, "Array Input and Output Syntax"
    static String quoted(String text) {
        boolean plain = !text.isEmpty() && !text.equalsIgnoreCase("NULL") && text.matches("[^\\s{}\",\\\\]+");
        return plain ? text : "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    // -- rows and messages -----------------------------------------------------------------------------------------

    static byte[] print(long lsn, List<Cell> cells) {
        BinaryRowData row = new BinaryRowData(3 + cells.size());
        BinaryRowWriter writer = new BinaryRowWriter(row);
        writer.writeLong(0, lsn);
        writer.writeLong(1, 5);
        writer.writeLong(2, 1_700_000_000_000_000L + lsn);
        for (int place = 0; place < cells.size(); place++) {
            Cell cell = cells.get(place);
            if (cell.text == null) {
                writer.setNullAt(3 + place);
            } else {
                cell.write.at(writer, 3 + place);
            }
        }
        writer.complete();
        byte[] raw = BinarySegmentUtils.copyToBytes(row.getSegments(), row.getOffset(), row.getSizeInBytes());
        List<String> types = new ArrayList<>();
        List<String> texts = new ArrayList<>();
        for (Cell cell : cells) {
            types.add(json(cell.type));
            texts.add(cell.text == null ? "null" : json(cell.text));
        }
        OUT.printf("{\"lsn\": %d, \"types\": [%s], \"texts\": [%s], \"row\": \"%s\"}%n",
                lsn, String.join(", ", types), String.join(", ", texts), hex(raw));
        return raw;
    }

    // holo-client, HoloBinlogDecoder.deserialize
    static byte[] message(List<byte[]> rows) {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        ByteBuffer edges = ByteBuffer.allocate(8 + 4 * rows.size()).order(ByteOrder.LITTLE_ENDIAN).putInt(1).putInt(rows.size());
        int at = edges.capacity();
        for (byte[] row : rows) {
            edges.putInt(at);
            at += row.length;
            body.writeBytes(row);
        }
        ByteBuffer head = ByteBuffer.allocate(16).putLong(0).putLong(7);
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        whole.writeBytes(head.array());
        whole.writeBytes(edges.array());
        whole.writeBytes(body.toByteArray());
        return whole.toByteArray();
    }

    static String hex(byte[] raw) {
        StringBuilder found = new StringBuilder();
        for (byte one : raw) {
            found.append(String.format("%02x", one));
        }
        return found.toString();
    }

    static String json(String text) {
        StringBuilder found = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            found.append(one < 32 || one == '"' || one == '\\' || one > 126 ? String.format("\\u%04x", (int) one) : one);
        }
        return found.append('"').toString();
    }
}
