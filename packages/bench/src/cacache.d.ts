/** The part of cacache that is used here; it ships no types. */
declare module 'cacache' {
  interface Cacache {
    put(cache: string, key: string, data: Uint8Array, options?: { algorithms?: readonly string[] }): Promise<string>
  }
  const cacache: Cacache
  export default cacache
}
