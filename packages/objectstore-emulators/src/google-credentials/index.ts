export {
  type GoogleCredentialsEmulator,
  type GoogleCredentialsOptions,
  openGoogleCredentials,
} from './google-credentials-emulator.ts'
export type { IssuedToken, TokenSource } from './token-issuer.ts'
