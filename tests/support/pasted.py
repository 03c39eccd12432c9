"""Statements from the vendors' pages about binlogs, as a user pastes them, including placeholders.

DWS, "Real-Time Binlog Consumption by Flink", "Subscribing to Hybrid Data Warehouse Binlog"; Alibaba Cloud, "Technical
Principle of Hologres Binlog"; Doris, "Binlog Load".
"""

# ruff: noqa: E501
from __future__ import annotations

DWS_FLINK = """\
-- Create a mapping table for the source table.
CREATE TABLE test_binlog_source (
   a int,
   b int,
   c int,
   primary key(a) NOT ENFORCED
) with (
   'connector' = 'dws',
   'url' = 'jdbc:gaussdb://ip:port/gaussdb',
   'binlog' = 'true',
   'tableName' = 'test_binlog_source',
   'binlogSlotName' = 'slot',
   'username'='xxx',
   'password'='xxx');

-- Create a mapping table for the target table:
CREATE TABLE test_binlog_sink (
   a int,
   b int,
   c int,
   primary key(a) NOT ENFORCED
) with (
   'connector' = 'dws',
   'url' = 'jdbc:gaussdb://ip:port/gaussdb',
   'tableName' = 'test_binlog_sink',
   'ignoreUpdateBefore'='false',
   'connectionSize' = '1',
   'username'='xxx',
   'password'='xxx');
INSERT INTO test_binlog_sink select * from test_binlog_source;
"""
DWS_FLINK_SOURCE = """\
CREATE TABLE test_binlog_source (
   a int,
   b int,
   c int,
   primary key(a) NOT ENFORCED
) with (
   'connector' = 'dws',
   'url' = 'jdbc:gaussdb://ip:port/gaussdb',
   'binlog' = 'true',
   'tableName' = 'test_binlog_source',
   'binlogSlotName' = 'slot',
   'username'='xxx',
   'password'='xxx')
"""
DWS_JAVA = """\
public class BinlogDemo {
    //Name of the binlog table
    private static final String BINLOG_TABLE_NAME = "binlog_test_source";

    //Slot name of the binlog table
    private static final String BINLOG_SLOT_NAME = "binlog_test_slot";

    //Name of the table to be written
    private static final String SINK_TABLE_NAME = "binlog_test_sink";

    private static DwsConfig buildDwsConfig() {
        //Initialize configuration information. (Only necessary parameters are listed. For more information about the configuration, see the document.)
        TableConfig tableConfig = new TableConfig().withBinlog(true)
                .withNewSystemValue(true)
                .withNeedRedistribution(false)
                .withBinlogSlotName(BINLOG_SLOT_NAME);
        return DwsConfig.builder()
                .withUrl("Link information")
                .withUsername("Username")
                .withPassword ("Password")
                .withBinlogTableName(BINLOG_TABLE_NAME)
                .withTableConfig(BINLOG_TABLE_NAME, tableConfig)
                .build();
    }
}
"""
HOLOGRES_FLINK = """\
create table binlog_source_table(
  hg_binlog_lsn BIGINT,
  hg_binlog_event_type BIGINT,
  hg_binlog_timestamp_us BIGINT,
  id INTEGER,
  title VARCHAR,
  body VARCHAR
) with (
  'connector'='hologres',
  'dbname'='<yourDbname>',
  'tablename'='<yourTablename>',
  'username'='<yourAccessID>',
  'password'='<yourAccessSecret>',
  'endpoint'='<yourEndpoint>',
  'binlog' = 'true',   -- Enable Binlog consumption.
  'cdcMode' = 'true',  -- CDC mode
  'binlogStartUpMode' = 'initial', -- Read full historical data first and then consume Binlog incrementally.
);
"""
HOLO_STREAM = """\
String tableName = "test_message_src";
PGReplicationStream pgReplicationStream = pgConnection.getReplicationAPI().replicationStream()
    .logical()
    .withSlotName("hg_replication_slot_1") // Specify the name of the replication slot.
    .withSlotOption("parallel_index", "0") // Concurrent sequence number, which corresponds to the shard ID of the table.
    .withSlotOption("batch_size", "1024")  // The maximum batch size of Binlog that can be obtained at a single time.
    .withSlotOption("start_time", "2021-01-01 00:00:00") // Start consuming at a certain point in time.
    .withSlotOption("start_lsn","0") // Start consuming after an lsn, with higher priority than start_time.
    .start();

// Create a Holo Client object.
HoloConfig holoConfig = new HoloConfig();
holoConfig.setJdbcUrl(url);
holoConfig.setUsername(username);
holoConfig.setPassword(password);
HoloClient client = new HoloClient(holoConfig);
"""
HOLO_CLIENT = """\
import com.alibaba.hologres.client.HoloConfig;
String username = "";
String password = "";
String url = "jdbc:postgresql://ip:port/database";
String tableName = "test_message_src";
String slotName = "hg_replication_slot_1";

// Create the client parameter.
HoloConfig holoConfig = new HoloConfig();
holoConfig.setJdbcUrl(url);
holoConfig.setUsername(username);
holoConfig.setPassword(password);
holoConfig.setBinlogReadBatchSize(128);
HoloClient client = new HoloClient(holoConfig);

// Initiate a request to consume Binlog. The tableName parameter and the slotName parameter are required parameters. You can use a StartTimeBuilder object or an OffsetBuilder object to subscribe to the consumption progress. In the following example, StartTimeBuilder is used:
Subscribe subscribe = Subscribe.newStartTimeBuilder(tableName, slotName)
                               .setBinlogReadStartTime("2021-01-01 12:00:00+08")
                               .build();
"""
CREATE_SYNC = """\
CREATE SYNC `demo`.`job`
(
FROM `demo`.`source_test1` INTO `target_test`
(id,name)
)
FROM BINLOG
(
"type" = "canal",
"canal.server.ip" = "127.0.0.1",
"canal.server.port" = "11111",
"canal.destination" = "xxx",
"canal.username" = "canal",
"canal.password" = "canal"
);
"""
CANAL_INSTANCE = """\
## canal instance serverId
canal.instance.mysql.slaveId = 1234
## mysql adress
canal.instance.master.address = 127.0.0.1:3306
## mysql username/password
canal.instance.dbUsername = canal
canal.instance.dbPassword = canal
"""
ON_HOLOGRES = """begin;
create table test_message_src(
  id int primary key,
  title text not null,
  body text);
call set_table_property('test_message_src', 'orientation', 'row');-- Create a row-oriented table named test_message_src.
call set_table_property('test_message_src', 'binlog.level', 'replica');-- Configure the binlog.level property to enable Binlog.
call set_table_property('test_message_src', 'binlog.ttl', '864000');--binlog.ttl, the TTL of Binlog. Unit: seconds. The time is seven days.
commit;"""
ON_DWS = (
    """CREATE TABLE hstore_binlog_source (
    c1  INT PRIMARY KEY,
    c2  INT,
    c3  INT
) WITH (
    ORIENTATION = COLUMN,
    enable_hstore=true,
    enable_binlog=on,
    binlog_ttl = 86400
);""",
    """CREATE TABLE hstore_binlog_source (
    c1  INT PRIMARY KEY,
    c2  INT,
    c3  INT
) WITH (
    ORIENTATION = COLUMN,
    enable_hstore=true
);
ALTER TABLE hstore_binlog_source SET (enable_binlog=on);""",
    """CREATE TABLE test_binlog_source(a int, b int, c int, primary key(a)) with(orientation=column, enable_hstore_opt=on, enable_binlog=true);
CREATE TABLE test_binlog_sink(a int, b int, c int, primary key(a)) with(orientation=column, enable_hstore_opt=on);""",
    """create table binlog_test_source(a int, b int, c int, primary key(a)) with(orientation=column, enable_hstore_opt=on, enable_binlog=true);
create table binlog_test_sink(a int, b int, c int, primary key(a)) with(orientation=column, enable_hstore_opt=on, enable_binlog=true);""",
)
ON_SERVERS = (
    ON_HOLOGRES,
    """create extension hg_binlog;
create publication hg_publication_test_1 for table test_message_src;
call hg_create_logical_replication_slot('replication_slot_name', 'hgoutput', 'publication_name');""",
    """call set_table_property('test_message_src', 'binlog.ttl', '86400'); -- Configure the binlog.ttl property to specify the TTL of Binlog. Unit: seconds.""",
    *ON_DWS,
    "SHOW enable_hstore_binlog_table",
    """--create Mysql table
CREATE TABLE `demo.source_test` (
  `id` int(11) NOT NULL COMMENT "",
  `name` int(11) NOT NULL COMMENT ""
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;


-- create Doris table
CREATE TABLE `target_test` (
  `id` int(11) NOT NULL COMMENT "",
  `name` int(11) NOT NULL COMMENT ""
) ENGINE=OLAP
UNIQUE KEY(`id`)
COMMENT "OLAP"
DISTRIBUTED BY HASH(`id`) BUCKETS 8;

-- enable batch delete
ALTER TABLE target_test ENABLE FEATURE "BATCH_DELETE";""",
)
"""Statements that run on DWS, Hologres, MySQL and Doris."""
