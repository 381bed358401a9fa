export {
  EMULATOR_CREDENTIALS,
  openS3Emulator,
  type S3Emulator,
  type S3EmulatorOptions,
  type SeenRequest,
} from './emulator.ts'
export type { OpenUpload } from './bucket.ts'
export type { S3Quirks } from './quirks.ts'
export type { KnownCredentials } from './signature.ts'
