// SPDX-License-Identifier: GPL-2.0

//! The attributes of the model of pin-init.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{parse_macro_input, parse_quote, Fields, ItemImpl, ItemStruct};

/// Takes `#[pin]` off the fields, and adds `project()`.
#[proc_macro_attribute]
pub fn pin_data(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as ItemStruct);
    let mut fields = Vec::new();
    if let Fields::Named(named) = &mut item.fields {
        for field in &mut named.named {
            field.attrs.retain(|attr| !attr.path().is_ident("pin"));
            fields.push((field.ident.clone(), field.ty.clone()));
        }
    }
    let (names, types): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let (name, vis) = (&item.ident, &item.vis);
    let projection = format_ident!("{name}Projection");
    let (impls, args, bounds) = item.generics.split_for_impl();
    let mut projected = item.generics.clone();
    projected.params.insert(0, parse_quote!('__p));
    let (projected_impls, projected_args, _) = projected.split_for_impl();
    quote! {
        #item

        #[allow(dead_code)]
        #vis struct #projection #projected_impls #bounds {
            #(#names: &'__p mut #types,)*
        }

        #[allow(dead_code)]
        impl #impls #name #args #bounds {
            fn project<'__p>(self: ::core::pin::Pin<&'__p mut Self>) -> #projection #projected_args {
                // SAFETY: As the kernel's macro: pinned fields are not moved.
                let this = unsafe { self.get_unchecked_mut() };
                #projection { #(#names: &mut this.#names,)* }
            }
        }
    }
    .into()
}

/// Calls the drop of a pinned value.
#[proc_macro_attribute]
pub fn pinned_drop(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as ItemImpl);
    if let Some((_, path, _)) = &mut item.trait_ {
        *path = parse_quote!(::pin_init::PinnedDrop);
    }
    let ty = &item.self_ty;
    let (impls, _, bounds) = item.generics.split_for_impl();
    quote! {
        #item

        impl #impls ::core::ops::Drop for #ty #bounds {
            fn drop(&mut self) {
                // SAFETY: A value that was pinned stays where it is.
                ::pin_init::PinnedDrop::drop(unsafe { ::core::pin::Pin::new_unchecked(self) });
            }
        }
    }
    .into()
}
