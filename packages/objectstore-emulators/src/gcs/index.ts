export { type GcsEmulator, type GcsEmulatorOptions, openGcsEmulator, type TokenVerdict } from './gcs-emulator.ts'
export type { GcsOperation } from './gcs-request.ts'
