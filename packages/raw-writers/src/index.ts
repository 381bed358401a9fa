// The check as one call
export { checkRawWriters, type RawWriterCheck } from './check-raw-writers.ts'

// Its parts
export {
  explainVerdict,
  judgeWriters,
  type ScannedSource,
  type WriterRow,
  type WriterVerdict,
} from './judge-writers.ts'
export { announcesWrites, findRawWriters, type RawWrite } from './find-raw-writers.ts'
