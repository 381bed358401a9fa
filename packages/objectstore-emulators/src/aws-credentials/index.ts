export { type AwsCredentialEndpoints, openAwsCredentialEndpoints } from './endpoints.ts'
export type { IssuedCredentials } from './issuer.ts'
